// What a running lab and a running search have in common: how far it is, what works now, notes, and the ways to stop it.
import { el } from "./dom.js";

export const clock = (s) => `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, "0")}`;

export class Running {
  // `stop(now)` ends it after the running answer or at once. `name`: "lab" or "search"; `remark` stands below the buttons.
  constructor(stop, { name, title, remark }) {
    this.title = el("h2", {}, title);
    this.bar = el("progress", { max: 1, value: 0, "aria-label": `How far the ${name} is` });
    this.time = el("span", { class: "b-muted l-clock" });
    this.phase = el("p", { class: "b-phase" }, "Asking for the engines");
    this.far = el("p", { class: "r-stands" });
    this.notes = el("ul", { class: "r-live-notes", hidden: true });
    this.place = el("div");
    this.later = el("button", { type: "button", class: "b-button", onclick: () => { this.later.disabled = true; this.later.textContent = "Stops after this answer"; stop(false); } }, "Stop after this answer");
    this.now = el("button", { type: "button", class: "b-button b-danger", onclick: () => { this.now.disabled = true; stop(true); } }, "Stop now");
    this.node = el(
      "section",
      { class: "r-card r-running l-running", "aria-label": `Running ${name}` },
      el("div", { class: "r-head" }, this.title, el("span", { class: "r-progress" }, this.bar, this.time)),
      this.phase,
      this.far,
      this.notes,
      el("div", { class: "r-buttons" }, this.later, this.now),
      el("p", { class: "b-muted l-small" }, `${remark} The ${name} goes on through a reload of this page; a minute after its last tab was closed it ends by itself.`),
      this.place,
    );
    this.timer = setInterval(() => this.tick(), 1000);
  }

  close() {
    clearInterval(this.timer);
  }

  tell(text) {
    this.phase.hidden = !text;
    if (this.phase.textContent !== text) this.phase.textContent = text;
  }

  retell(notes) {
    this.notes.replaceChildren();
    this.notes.hidden = true;
    notes.forEach((note) => this.note(note));
  }

  note(text) {
    this.notes.hidden = false;
    this.notes.append(el("li", {}, text));
  }

  // `spent` seconds so far, of at most `limit` (null: none); `share` of it is done.
  stands(share, spent, limit) {
    Object.assign(this, { spent, limit, since: performance.now() });
    this.bar.value = share;
    this.tick();
  }

  limited(spent, limit) {
    return `${clock(Math.min(spent, limit))} of at most ${clock(limit)}`;
  }

  // A clock that moves once a second costs the engine nothing that could be measured.
  tick() {
    if (this.since === undefined || !this.begun()) return;
    const spent = this.spent + (performance.now() - this.since) / 1000;
    this.time.textContent = this.limit ? this.limited(spent, this.limit) : clock(spent);
  }
}
