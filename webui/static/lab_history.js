// The labs that were kept: opened again, gone on with, deleted.
import { call } from "./api.js";
import { complain, confirmed, toast } from "./dialog.js";
import { $, button, count, el } from "./dom.js";

const when = (created) => new Date(created * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });

const HOW = { sure: "complete", runs: "complete", budget: "time was up", stopped: "stopped", failed: "broke off", "": "broke off" };

function standing(it) {
  if (it.running) return "running";
  return it.done < it.cells ? `${HOW[it.ended]}, ${it.done} of ${it.cells} cells` : HOW[it.ended];
}

export class History {
  // `open(id)` shows one, `resume(id)` goes on with it, `gone(id)` is told of a deleted one.
  constructor({ open, gone, resume }) {
    Object.assign(this, { open, gone, resume });
    this.told = "";
    this.most = 12;
  }

  async refresh() {
    let listing;
    try {
      listing = await call("GET", "labs");
    } catch (problem) {
      complain(problem);
      return;
    }
    if (listing.set_aside.length) toast(`Could not read ${listing.set_aside.join(", ")}: kept aside, the rest is here.`, "bad");
    const unreadable = listing.unreadable.join("\n");
    if (unreadable && unreadable !== this.told) toast(unreadable, "bad");
    this.told = unreadable;
    const place = $("l-history");
    if (listing.labs.length) place.replaceChildren(...this.lines(listing.labs));
    else place.replaceChildren(el("p", { class: "b-muted" }, "Each lab is kept here, on this machine only. One that was not finished can be gone on with."));
  }

  // The newest; the others when they are asked for.
  lines(labs) {
    const list = el("ul", { class: "r-list" }, ...labs.slice(0, this.most).map((it) => this.line(it)));
    const rest = labs.slice(this.most);
    if (!rest.length) return [list];
    const more = el("button", { type: "button", class: "b-button", onclick: () => {
      this.most = Infinity;
      list.append(...rest.map((it) => this.line(it)));
      more.remove();
    } }, `Show all ${labs.length}`);
    return [list, more];
  }

  line(it) {
    const name = `the lab of ${when(it.created)}`;
    const resumes = it.unfinished && !it.running;
    const other = it.other.length ? `measured with another ${it.other.join(", another ")}` : "";
    return el(
      "li",
      { class: "r-item l-item" },
      el(
        "button",
        { type: "button", class: "r-open", onclick: () => this.open(it.id) },
        el("span", { class: "r-when" }, when(it.created)),
        el("span", { class: "r-pair" }, `${it.quick ? "Quick lab" : "Lab"}, ${count(it.cells)} cells, ${count(it.runs)} answers`),
        el("span", { class: "r-about-text", title: [it.model, other].filter(Boolean).join(" · ") }, [it.model, other].filter(Boolean).join(" · ")),
        el("span", { class: "l-standing" }, standing(it)),
      ),
      resumes && el("button", { type: "button", class: "b-button l-resume", "aria-label": `Go on with ${name}`, disabled: other !== "", title: other && `It was ${other}: figures cannot be put together.`, onclick: () => this.resume(it.id) }, "Go on"),
      !it.running && button(`Delete ${name}`, "trash", () => this.remove(it)),
    );
  }

  async remove(it) {
    if (!(await confirmed("Delete this lab?", "It is removed from this machine for good.", "Delete", true))) return;
    try {
      await call("DELETE", `labs/${it.id}`);
      this.gone(it.id);
    } catch (problem) {
      complain(problem);
    }
    await this.refresh();
  }
}
