// Both answers of a round once more, in true time from the request on, side by side from the same start.
import { el } from "./dom.js";
import { shareText, speedText } from "./race_figures.js";
import { Ribbon, ribbonLegend, svg, upTo } from "./race_ribbon.js";
import { TokenText } from "./race_text.js";

const THOUGHT = 10; // is added to the origin of thoughts
const isThought = (origin) => origin > THOUGHT / 2;
const SPEEDS = [0.5, 1, 2, 4, 8];
const clock = (ms) => `${(ms / 1000).toFixed(ms < 100_000 ? 2 : 1)} s`;
const SIGN = { Play: "M3 1.500v11l9-5.500z", Pause: "M3 2h3v10h-3zM8 2h3v10h-3z" };
const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

class ReplayPane {
  constructor(side, name, run, onPick) {
    this.run = run;
    let at = run.first_ms;
    this.times = run.at.map((gap) => (at += gap));
    this.end = this.times.at(-1) ?? 0;
    this.pieces = pieces(run);
    this.counts = [0];
    for (const tokens of run.tokens) this.counts.push(this.counts.at(-1) + tokens);
    this.text = new TokenText(`Answer of ${name}`);
    if (run.text === null) this.text.node.classList.add("r-anonymous");
    this.count = el("span", { class: "r-count" });
    this.flag = el("span", { class: "r-flag", hidden: true });
    this.bar = el("i");
    this.ribbon = run.steps.length ? new Ribbon(run.steps, run.first_ms, onPick) : null;
    this.shown = 0;
    this.node = el(
      "section",
      { class: "r-pane", "aria-label": `Replay of ${name}` },
      el("header", { class: "r-pane-head" }, el("h3", {}, el("i", { class: "r-letter" }, "AB"[side]), name), el("span", { class: "r-speed" }, [speedText(run.speed), shareText(run.acceptance)].filter(Boolean).join(" · "))),
      el("div", { class: "r-lane", "aria-hidden": "true" }, this.bar),
      this.text.node,
      el("p", { class: "r-pane-foot" }, this.count, this.flag),
      this.ribbon?.node,
    );
  }

  seek(ms) {
    const to = upTo(this.times, ms);
    const { origin } = this.run;
    for (let at = this.shown; at < to; at += 1) this.text.append(this.pieces[at], origin[at] % THOUGHT, isThought(origin[at]));
    for (let at = this.shown - 1; at >= to; at -= 1) this.text.cut(this.pieces[at].length, isThought(origin[at]));
    if (to !== this.shown || this.count.textContent === "") {
      this.shown = to;
      this.text.toEnd();
      this.bar.style.transform = `scaleX(${to / Math.max(1, this.times.length)})`;
      this.count.textContent = to ? `${this.counts[to]} ${this.counts[to] === 1 ? "token" : "tokens"}` : "Reading the prompt";
    }
    this.flag.hidden = ms < this.end;
    this.ribbon?.seek(ms);
  }
}

// The text of each mark; where the texts were left out, as many letters that are only seen as blocks.
function pieces(run) {
  const places = { true: 0, false: 0 };
  return run.chars.map((length, at) => {
    if (run.text === null) return length > 1 ? `${"x".repeat(length - 1)} ` : "x";
    const thought = isThought(run.origin[at]);
    places[thought] += length;
    return (thought ? run.thinking : run.text).slice(places[thought] - length, places[thought]);
  });
}

export class Replay {
  constructor(view) {
    this.view = view;
    this.speed = 1;
    this.playing = false;
    this.ms = 0;
    this.rounds = view.rounds.filter((round) => round.runs.some((run) => run?.at.length));
    if (!this.rounds.length) return;
    this.panes = [];
    this.playButton = el("button", { type: "button", class: "b-button r-play", onclick: () => this.toggle() });
    this.scrubber = el("input", { type: "range", class: "r-scrubber", min: "0", step: "1", "aria-label": "Time", oninput: () => this.jump(Number(this.scrubber.value)) });
    this.clock = el("span", { class: "r-clock" });
    this.panesNode = el("div", { class: "r-panes" });
    this.node = el(
      "section",
      { class: "r-card r-replay", "aria-label": "Replay" },
      el("div", { class: "r-head" }, el("h2", {}, "Replay in true time", el("small", {}, "from the request on")), this.rounds.length > 1 && this.choice()),
      this.panesNode,
      el("div", { class: "r-controls" }, this.playButton, this.scrubber, this.clock, this.speeds()),
      view.positions.some(Boolean) && ribbonLegend(),
    );
    this.node.addEventListener("keydown", (event) => this.key(event));
    this.drawButton();
    this.load(view.median ?? this.rounds[0].round);
  }

  choice() {
    return el(
      "label",
      { class: "r-choice" },
      "Round ",
      el(
        "select",
        { class: "b-field", onchange: (event) => { this.load(Number(event.target.value)); this.play(0); } },
        ...this.rounds.map(({ round }) =>
          el("option", { value: round, selected: round === this.view.median }, round === this.view.median ? `${round} (the median)` : String(round)),
        ),
      ),
    );
  }

  speeds() {
    return el(
      "fieldset",
      { class: "r-radios r-speeds" },
      el("legend", { class: "b-hidden" }, "Speed of the replay"),
      ...SPEEDS.map((speed) =>
        el("label", {}, el("input", { type: "radio", name: "r-speed", value: speed, checked: speed === 1, onchange: () => { this.speed = speed; } }), el("span", {}, `${speed}x`)),
      ),
    );
  }

  load(round) {
    this.pause();
    const runs = (this.rounds.find((it) => it.round === round) ?? this.rounds[0]).runs;
    this.panes = runs.map((run, side) => run && new ReplayPane(side, this.view.names[side], run, (ms) => this.jump(ms))).filter(Boolean);
    this.end = Math.max(1, ...this.panes.map((pane) => pane.end));
    const first = Math.min(...this.panes.map((pane) => pane.end));
    for (const pane of this.panes) {
      // Of answers that differ in length none is the first.
      const fair = this.panes.length > 1 && this.panes[0].counts.at(-1) === this.panes[1].counts.at(-1);
      const wins = fair && pane.end === first && first < this.end;
      pane.flag.textContent = `\u2691 ${pane.run.ended === "failed" || pane.run.ended === "stopped" ? `${pane.run.ended} at` : wins ? "first, in" : "done in"} ${clock(pane.end)}`;
    }
    this.scrubber.max = this.end;
    this.panesNode.replaceChildren(...this.panes.map((pane) => pane.node));
    this.panesNode.classList.toggle("r-one", this.panes.length < 2);
    this.ms = this.end;
    this.draw();
    // Not on the page yet, nothing could be scrolled.
    requestAnimationFrame(() => {
      for (const pane of this.panes) {
        pane.text.toEnd();
        pane.ribbon?.follow();
      }
    });
  }

  // From the start, unless the person wants no motion.
  autoplay() {
    if (this.node && !calm()) this.play(0);
  }

  play(from = this.ms >= this.end ? 0 : this.ms) {
    this.ms = from;
    this.playing = true;
    this.last = performance.now();
    this.drawButton();
    this.draw();
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame((now) => this.tick(now));
  }

  pause() {
    if (!this.node) return;
    this.playing = false;
    cancelAnimationFrame(this.frame);
    this.drawButton();
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  jump(ms) {
    this.ms = Math.min(this.end, Math.max(0, ms));
    this.draw();
  }

  tick(now) {
    if (!this.playing || !this.node.isConnected) {
      this.pause();
      return;
    }
    this.ms = Math.min(this.end, this.ms + Math.max(0, now - this.last) * this.speed);
    this.last = now;
    this.draw();
    if (this.ms >= this.end) this.pause();
    else this.frame = requestAnimationFrame((next) => this.tick(next));
  }

  draw() {
    for (const pane of this.panes) pane.seek(this.ms);
    const text = `${clock(this.ms)} of ${clock(this.end)}`;
    if (this.clock.textContent === text) return;
    this.clock.textContent = text;
    this.scrubber.value = this.ms;
    this.scrubber.setAttribute("aria-valuetext", text);
  }

  drawButton() {
    const label = this.playing ? "Pause" : "Play";
    if (this.playButton.dataset.label === label) return;
    this.playButton.dataset.label = label;
    const sign = svg("svg", { width: 14, height: 14, viewBox: "0 0 14 14", "aria-hidden": "true" }, svg("path", { d: SIGN[label] }));
    this.playButton.replaceChildren(sign, label);
  }

  // The space bar plays, the arrows go from token to token of either side.
  key(event) {
    const { target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || target.tagName === "SELECT") return;
    const onText = target.closest(".r-text");
    if (event.key === " " && target.tagName !== "BUTTON" && target.type !== "radio") this.toggle();
    else if (target === this.scrubber || !(onText || target.type === "radio")) {
      const to = this.target(event.key);
      if (to === null) return;
      this.pause();
      this.jump(to);
    } else return;
    event.preventDefault();
  }

  target(key) {
    const tenth = this.end / 10;
    switch (key) {
      case "ArrowRight":
      case "ArrowUp":
        return Math.min(...this.panes.map((pane) => pane.times[upTo(pane.times, this.ms)] ?? this.end));
      case "ArrowLeft":
      case "ArrowDown":
        return Math.max(0, ...this.panes.map((pane) => pane.times[upTo(pane.times, this.ms - 0.5) - 1] ?? 0));
      case "PageUp":
        return this.ms + tenth;
      case "PageDown":
        return this.ms - tenth;
      case "Home":
        return 0;
      case "End":
        return this.end;
      default:
        return null;
    }
  }
}
