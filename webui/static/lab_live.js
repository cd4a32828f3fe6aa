// A lab while it runs: how far it is, what works now, and the table as it fills.
import { count, el } from "./dom.js";
import { LabTable } from "./lab_table.js";

const clock = (s) => `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, "0")}`;

export class Live {
  // `stop(now)` ends it after the running answer or at once.
  constructor(stop) {
    this.title = el("h2", {}, "Starting the lab");
    this.bar = el("progress", { max: 1, value: 0, "aria-label": "How far the lab is" });
    this.time = el("span", { class: "b-muted l-clock" });
    this.phase = el("p", { class: "b-phase" }, "Asking for the engines");
    this.far = el("p", { class: "r-stands" });
    this.notes = el("ul", { class: "r-live-notes", hidden: true });
    this.place = el("div");
    this.later = el("button", { type: "button", class: "b-button", onclick: () => { this.later.disabled = true; this.later.textContent = "Stops after this answer"; stop(false); } }, "Stop after this answer");
    this.now = el("button", { type: "button", class: "b-button b-danger", onclick: () => { this.now.disabled = true; stop(true); } }, "Stop now");
    this.node = el(
      "section",
      { class: "r-card r-running l-running", "aria-label": "Running lab" },
      el("div", { class: "r-head" }, this.title, el("span", { class: "r-progress" }, this.bar, this.time)),
      this.phase,
      this.far,
      this.notes,
      el("div", { class: "r-buttons" }, this.later, this.now),
      el("p", { class: "b-muted l-small" }, "What is measured is kept at once and can be gone on with later. The lab goes on through a reload of this page; a minute after its last tab was closed it ends by itself."),
      this.place,
    );
    this.timer = setInterval(() => this.tick(), 1000);
  }

  close() {
    clearInterval(this.timer);
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
    Object.assign(this, { block: lab.block, at: lab.at, of: lab.of, inside: lab.inside });
    this.rows = new Map(lab.rows.map((row) => [row.key, row]));
    this.table = new LabTable(lab.rows, { live: true });
    this.place.replaceChildren(this.table.node);
    this.notes.replaceChildren();
    this.notes.hidden = true;
    lab.notes.forEach((note) => this.note(note));
    this.progress(lab);
    if (lab.key !== null) this.cell(lab);
    else if (lab.phase) this.tell(lab.phase);
    this.draw();
  }

  tell(text) {
    this.phase.hidden = !text;
    if (this.phase.textContent !== text) this.phase.textContent = text;
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
    Object.assign(this, { measured, cells, answers, spent: spent_s, budget: budget_s, since: performance.now() });
    this.inside ||= answers > 0;
    this.bar.value = share;
    this.tick();
  }

  draw() {
    if (!this.of) return;
    this.far.textContent = `Round ${this.block}: answer ${Math.max(1, this.at)} of ${this.of}. ${this.measured} of ${this.cells} cells measured, ${count(this.answers)} ${this.answers === 1 ? "answer" : "answers"} in all.`;
  }

  // A clock that moves once a second costs the engine nothing that could be measured.
  tick() {
    if (this.since === undefined || !this.of) return;
    const spent = this.spent + (performance.now() - this.since) / 1000;
    this.time.textContent = this.budget ? `${clock(Math.min(spent, this.budget))} of at most ${clock(this.budget)}` : clock(spent);
  }

  note(text) {
    this.notes.hidden = false;
    this.notes.append(el("li", {}, text));
  }
}
