// A race while it runs: two panes, of which one is at work, the order in which they take turns, and how it stands.
import { count, el } from "./dom.js";
import { shareText, speedText } from "./race_figures.js";
import { TokenText } from "./race_text.js";

class LivePane {
  constructor(side) {
    this.name = el("span");
    this.figures = el("span", { class: "r-speed" });
    this.text = new TokenText(`Answer of ${"AB"[side]}`);
    this.foot = el("p", { class: "r-pane-foot" }, "waits");
    this.runs = el("ol", { class: "r-runs", "aria-label": "Rounds so far" });
    this.node = el("section", { class: "r-pane r-live", data: { side } }, el("header", { class: "r-pane-head" }, el("h3", {}, el("i", { class: "r-letter" }, "AB"[side]), this.name), this.figures), this.text.node, this.foot, this.runs);
  }

  begin(name) {
    this.name.textContent = name;
    this.node.setAttribute("aria-label", name);
    this.figures.textContent = "";
    this.text.clear();
    this.runs.replaceChildren();
    this.say("waits");
  }

  say(text, works = false) {
    if (this.foot.textContent !== text) this.foot.textContent = text;
    this.node.classList.toggle("r-works", works);
    this.node.setAttribute("aria-busy", String(works));
  }

  piece(text, runs, thinking) {
    let at = 0;
    for (const [length, origin] of runs ?? [[text.length, -1]]) {
      this.text.append(text.slice(at, at + length), origin, thinking);
      at += length;
    }
    this.text.toEnd();
  }

  live({ tokens, speed, acceptance }) {
    this.figures.textContent = [speedText(speed), shareText(acceptance)].filter(Boolean).join(" · ");
    this.say(`works · ${count(tokens)} tokens`, true);
  }

  ran({ round, tokens, speed, acceptance }) {
    this.figures.textContent = [speedText(speed), shareText(acceptance)].filter(Boolean).join(" · ");
    this.say(`waits · ${count(tokens)} tokens in round ${round}`);
    this.runs.append(el("li", { title: `Round ${round}` }, speed === null ? "–" : speed.toFixed(speed < 100 ? 1 : 0)));
  }
}

export class Live {
  // `stop(now)` ends it between rounds or at once.
  constructor(stop) {
    this.panes = [new LivePane(0), new LivePane(1)];
    this.title = el("h2", {}, "Starting the race");
    this.order = el("div", { class: "r-order", role: "img" });
    this.stands = el("p", { class: "r-stands" });
    this.notes = el("ul", { class: "r-live-notes", hidden: true });
    this.phase = el("p", { class: "b-phase" }, "Asking for the engines");
    this.later = el("button", { type: "button", class: "b-button", onclick: () => { this.later.disabled = true; this.later.textContent = "Stops after this round"; stop(false); } }, "Stop after this round");
    this.now = el("button", { type: "button", class: "b-button b-danger", onclick: () => { this.now.disabled = true; stop(true); } }, "Stop now");
    this.node = el(
      "section",
      { class: "r-card r-running", "aria-label": "Running race" },
      el("div", { class: "r-head" }, this.title, this.order),
      this.phase,
      el("div", { class: "r-panes" }, ...this.panes.map((pane) => pane.node)),
      this.stands,
      this.notes,
      el("div", { class: "r-buttons" }, this.later, this.now),
    );
    this.round = 0;
    this.done = 0;
    this.rounds = 0;
  }

  frame(frame) {
    if ("s" in frame) {
      const thinking = "h" in frame;
      this.panes[frame.s].piece(thinking ? frame.h : frame.t, frame.r, thinking);
    } else if (frame.live) this.panes[frame.live.s].live(frame.live);
    else if (frame.race) this.begin(frame.race);
    else if (frame.wait) this.tell(frame.wait);
    else if (frame.prepare) this.prepare(frame.prepare);
    else if (frame.run) this.turn(frame.run);
    else if (frame.reading) this.reading(frame.reading);
    else if (frame.ran) this.ran(frame.ran);
    else if (frame.round) this.roundDone(frame.round);
    else if (frame.note) this.note(frame.note);
  }

  begin({ number, total, kind, language, names, rounds }) {
    this.rounds = rounds;
    this.names = names;
    this.round = 1;
    this.done = 0;
    this.panes.forEach((pane, side) => pane.begin(names[side]));
    const text = [kind, language].filter(Boolean).join(", ") || "own prompt";
    this.title.textContent = total > 1 ? `Race ${number} of ${total}: ${text}` : `Race: ${text}`;
    this.stands.textContent = "";
    this.notes.replaceChildren();
    this.notes.hidden = true;
    this.drawOrder();
  }

  // The turns as letters: done, running, to come. A person sees that neither side is always first.
  drawOrder(current = -1) {
    const letters = [];
    for (let round = 1; round <= this.rounds; round += 1) letters.push(...(round % 2 ? ["A", "B"] : ["B", "A"]));
    const shown = letters.slice(0, 24);
    this.order.replaceChildren(
      ...shown.map((letter, at) => el("i", { class: at < this.done ? "r-done" : at === current ? "r-current" : null }, letter)),
      letters.length > shown.length ? ` and ${letters.length - shown.length} more` : "",
    );
    this.order.setAttribute("aria-label", `Round ${this.round} of at most ${this.rounds}; order ${letters.slice(0, 4).join(" ")} and so on, ${this.done} answers done`);
  }

  tell(text) {
    this.phase.hidden = !text;
    if (this.phase.textContent !== text) this.phase.textContent = text;
  }

  prepare({ s, message }) {
    this.tell(message);
    this.panes[s].say("gets ready", true);
  }

  turn({ s, round }) {
    this.round = round;
    this.tell(`Round ${round} of ${this.rounds}: ${this.names[s]} answers`);
    const pane = this.panes[s];
    pane.text.clear();
    pane.figures.textContent = "";
    pane.say("works", true);
    const other = this.panes[1 - s];
    if (other.node.classList.contains("r-works")) other.say("waits");
    this.drawOrder(this.done);
  }

  reading({ s, done, of }) {
    if (done < of) this.panes[s].say(`reads the prompt, ${count(done)} of ${count(of)} tokens`, true);
  }

  ran(run) {
    this.done += 1;
    this.panes[run.s].ran(run);
    this.drawOrder();
  }

  roundDone({ number, ratio, spread, word }) {
    if (ratio === null) return;
    const [a, b] = this.names;
    const range = spread && number > 1 ? ` (${spread[0].toFixed(2)} to ${spread[1].toFixed(2)})` : "";
    this.stands.textContent = `After round ${number}: ${b} runs at ${ratio.toFixed(2)}x of ${a}${range}, ${word}.`;
  }

  note(text) {
    this.notes.hidden = false;
    this.notes.append(el("li", {}, text));
  }
}
