// A search for what is best here while it runs: what is asked now, and what is known so far.
import { count, el } from "./dom.js";
import { clock, Running } from "./lab_running.js";
import { knownTable, markKnown, WHOM } from "./lab_known.js";

export class SearchLive extends Running {
  constructor(stop) {
    super(stop, { name: "search", title: "Finding what is best here", remark: "It ends by itself, often well before the time that it may take; what a stopped one knows by then is shown." });
    this.parts = new Map();
    this.places = new Map();
    this.asked = null;
  }

  frame(frame) {
    if (frame.search) this.begin(frame.search);
    else if (frame.wait !== undefined) this.tell(frame.wait);
    else if (frame.ask) this.ask(frame.ask);
    else if (frame.prepare) this.tell(frame.prepare);
    else if (frame.answer) this.answers(frame.answer);
    else if (frame.part) this.part(frame.part, frame);
    else if (frame.note) this.note(frame.note);
  }

  begin(search) {
    for (const part of search.parts) {
      if (!this.places.has(part.purpose)) this.places.set(part.purpose, el("section", { class: "l-part", "aria-label": WHOM[part.purpose] }));
    }
    this.place.replaceChildren(el("div", { class: "l-parts" }, ...this.places.values()));
    this.asked = search.asked;
    search.parts.forEach((part) => this.draw(part));
    this.retell(search.notes);
    this.stands(search.share, search.spent_s, search.limit_s);
    if (search.asked && search.answering) this.answers(search.asked);
    else if (search.phase) this.tell(search.phase);
  }

  begun() {
    return this.spent > 0 || this.asked !== null;
  }

  // What it keeps to is calculated from the answers so far.
  limited(spent, limit) {
    return spent < limit ? `${clock(spent)} of at most about ${clock(limit)}` : clock(spent);
  }

  ask(asked) {
    this.asked = asked;
    this.mark();
    this.tick();
  }

  answers({ purpose, name, tokens }) {
    const { kind, temperature } = this.parts.get(purpose);
    this.tell(`${name === "plain" ? "Plain decoding" : name} answers: ${kind}, temperature ${temperature}, at most ${tokens} tokens`);
  }

  part(part, { share, spent_s, limit_s }) {
    this.asked = null;
    this.draw(part);
    this.stands(share, spent_s, limit_s);
  }

  draw(part) {
    this.parts.set(part.purpose, part);
    const known = part.rows.some((row) => row.answers && !row.plain);
    const best = part.best === "plain" ? "plain decoding looks best." : `${part.best} looks best, at ${part.ratio?.toFixed(2)}x plain decoding.`;
    this.places.get(part.purpose).replaceChildren(
      el("h3", {}, WHOM[part.purpose], el("small", {}, `${part.kind}, temperature ${part.temperature}`)),
      el("p", { class: part.text ? "l-said" : "l-said b-muted" }, part.text || (known ? `Of those asked so far, ${best}` : "Nothing is known yet.")),
      knownTable(part.rows, part.purpose),
    );
    this.mark();
    const answers = [...this.parts.values()].flatMap((it) => it.rows).reduce((sum, row) => sum + row.answers, 0);
    this.far.textContent = `${count(answers)} ${answers === 1 ? "answer" : "answers"} so far; first for coding, then for chat.`;
  }

  mark() {
    for (const [purpose, place] of this.places) markKnown(place, this.asked?.purpose === purpose ? this.asked.name : null);
  }
}
