// The choice to find what is best here: what it does, how long it takes, and what it found last.
import { count, el } from "./dom.js";
import { chips, time } from "./lab_setup.js";
import { on, state } from "./state.js";

export class Finder {
  // `find(language)` starts it, `show(view)` shows what was found last.
  constructor(form, found, find, show) {
    this.form = form;
    this.busy = false;
    this.language = "en";
    this.takes = el("p", { class: "r-what l-takes" });
    this.wait = el("p", { class: "r-wait", hidden: true }, "An answer is running: the search waits until it has ended.");
    this.go = el("button", { type: "submit", class: "b-button b-primary l-go" }, "Find what is best here");
    this.last = el("button", { type: "button", class: "b-button", hidden: true, onclick: () => show(this.found.found) }, "Show what was found last");
    form.replaceChildren(
      el("h2", {}, "Find what is best here"),
      el("p", { class: "b-muted" }, `Tries the methods on a few answers (${this.texts(found)}) and spends more of them only on what could still win. It ends by itself, with what to use for each and how sure that is, after a small part of what measuring everything takes.`),
      ...(found.practice ? [el("p", { class: "b-muted" }, "The practice pair runs, which is not a language model: its speeds, and advice that comes of them, say nothing about a real one.")] : []),
      chips("Language of the texts", Object.entries(found.languages).map(([value, label]) => ({ label, value, checked: value === this.language })), (language) => { this.language = language; }, "radio"),
      this.takes,
      this.wait,
      el("div", { class: "r-buttons" }, this.go, this.last),
    );
    form.onsubmit = (event) => {
      event.preventDefault();
      if (!this.busy) find(this.language);
    };
    this.update(found);
    on("status", () => this.draw());
  }

  texts(found) {
    return found.find.texts.map(([purpose, kind, temperature]) => `${kind} at temperature ${temperature} for ${purpose === "chat" ? "a general chat" : "coding"}`).join(", ");
  }

  // What is known of this machine's pace may be new, and something may have been found.
  update(found) {
    this.found = found;
    const last = found.found && !found.found.stopped && !found.found.problem;
    this.takes.textContent = `${this.estimate(found.find, last ? found.found.took : "")} The chat waits meanwhile.`;
    this.draw();
  }

  // `last`: what a whole search took.
  estimate({ answers, seconds, source }, last) {
    const many = `${count(answers[0])} to ${count(answers[1])} answers`;
    if (last) return `It usually takes ${many}; the last search here took ${last}.`;
    if (!seconds) return `It usually takes ${many}; how long they take here shows with the first ones.`;
    const [from, to] = seconds.map(time);
    return `About ${from === to ? from : `${from} to ${to}`}, by ${source}: usually ${many}.`;
  }

  draw() {
    this.wait.hidden = this.busy || state.status?.busy_with !== "chat";
    this.go.disabled = this.busy;
    this.last.hidden = !this.found.found;
  }

  running(busy) {
    this.busy = busy;
    this.form.hidden = busy;
    this.draw();
  }
}
