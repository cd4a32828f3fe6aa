// The labs that were kept: opened again, gone on with, deleted.
import { count, el } from "./dom.js";
import { Kept } from "./history.js";

const NONE = "Each lab is kept here, on this machine only. One that was not finished can be gone on with.";

const HOW = { sure: "complete", runs: "complete", budget: "time was up", stopped: "stopped", failed: "broke off", "": "broke off" };

function standing(it) {
  if (it.running) return "running";
  return it.done < it.cells ? `${HOW[it.ended]}, ${it.done} of ${it.cells} cells` : HOW[it.ended];
}

export class History extends Kept {
  // `open` and `gone` as in Kept; `resume(id)` goes on with one.
  constructor({ open, gone, resume }) {
    super({ noun: "lab", place: "l-history", none: NONE, open, gone });
    this.resume = resume;
  }

  line(it) {
    const resumes = it.unfinished && !it.running;
    const other = it.other.length ? `measured with another ${it.other.join(", another ")}` : "";
    const about = [it.model, other].filter(Boolean).join(" · ");
    return el(
      "li",
      { class: "r-item l-item" },
      this.opener(
        it,
        null,
        el("span", { class: "r-pair" }, `${it.quick ? "Quick lab" : "Lab"}, ${count(it.cells)} cells, ${count(it.runs)} answers`),
        el("span", { class: "r-about-text", title: about }, about),
        el("span", { class: "l-standing" }, standing(it)),
      ),
      resumes && el("button", { type: "button", class: "b-button l-resume", "aria-label": `Go on with ${this.name(it)}`, disabled: other !== "", title: other && `It was ${other}: figures cannot be put together.`, onclick: () => this.resume(it.id) }, "Go on"),
      !it.running && this.deleter(it),
    );
  }
}
