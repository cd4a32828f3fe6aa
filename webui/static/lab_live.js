// A lab while it runs: how far it is, what works now, and the table as it fills.
import { count } from "./dom.js";
import { Running } from "./lab_running.js";
import { LabTable } from "./lab_table.js";

export class Live extends Running {
  constructor(stop) {
    super(stop, { name: "lab", title: "Starting the lab", remark: "What is measured is kept at once and can be gone on with later." });
  }

  frame(frame) {
    if (frame.lab) this.begin(frame.lab);
    else if (frame.wait !== undefined) this.tell(frame.wait);
    else if (frame.prepare) { this.tell(frame.prepare); this.table.mark(null); }
    else if (frame.block) { this.block = frame.block.number; this.at = 0; this.of = frame.block.cells; this.draw(); }
    else if (frame.cell) this.cell(frame.cell);
    else if (frame.done) this.done(frame.done);
    else if (frame.note) this.note(frame.note);
  }

  begin(lab) {
    this.title.textContent = lab.quick ? "Quick lab" : "Lab";
    Object.assign(this, { block: lab.block, at: lab.at, of: lab.of });
    this.rows = new Map(lab.rows.map((row) => [row.key, row]));
    this.table = new LabTable(lab.rows, { live: true });
    this.place.replaceChildren(this.table.node);
    this.retell(lab.notes);
    this.progress(lab);
    if (lab.key !== null) this.cell(lab);
    else if (lab.phase) this.tell(lab.phase);
    this.draw();
  }

  begun() {
    return Boolean(this.of);
  }

  cell({ key, block, at, of }) {
    Object.assign(this, { block, at, of });
    const row = this.rows.get(key);
    this.tell(`${row.plain ? "Plain decoding" : row.name} answers: ${row.kind}, temperature ${row.temperature}`);
    this.table.mark(key);
    this.draw();
  }

  done({ row, ...progress }) {
    this.rows.set(row.key, row);
    this.table.update(row);
    this.table.mark(null);
    this.progress(progress);
    this.draw();
  }

  progress({ measured, cells, answers, share, spent_s, budget_s }) {
    Object.assign(this, { measured, cells, answers });
    this.stands(share, spent_s, budget_s);
  }

  draw() {
    if (!this.of) return;
    this.far.textContent = `Round ${this.block}: answer ${Math.max(1, this.at)} of ${this.of}. ${this.measured} of ${this.cells} cells measured, ${count(this.answers)} ${this.answers === 1 ? "answer" : "answers"} in all.`;
  }
}
