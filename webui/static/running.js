// An answer while it comes: what is going on, thoughts, text, running figures. Drawn at most once a frame.
import { Body } from "./body.js";
import { count, el, seconds } from "./dom.js";
import { state } from "./state.js";

export class RunningAnswer {
  constructor() {
    this.started = performance.now();
    this.last = this.started;
    this.body = new Body();
    this.phase = "Sending";
    this.firstThought = 0;
    this.queue = [];
    this.scheduled = false;
    this.onDraw = () => {};
    this.phaseNode = el("p", { class: "b-phase" });
    this.thoughts = el("div", { class: "b-thoughts b-plain" });
    this.thinkTitle = el("summary", {}, "Thinking");
    this.think = el("details", { class: "b-thinking", hidden: true }, this.thinkTitle, this.thoughts);
    this.live = el("p", { class: "b-figures b-live", "aria-hidden": "true" });
    this.node = el(
      "article",
      { class: "b-turn b-answer b-running", "aria-label": "Answer", "aria-busy": "true" },
      this.phaseNode,
      this.think,
      this.body.node,
      this.live,
    );
    this.timer = setInterval(() => this.tick(), 500);
    this.show();
    this.tick();
  }

  // The text in the way it is shown now.
  show() {
    this.body.begin(state.settings.tint ? "tint" : this.rendered && !this.body.raw ? "html" : "plain");
  }

  frame(frame) {
    this.last = performance.now();
    if ("t" in frame) {
      if (frame.t) this.endThinking();
      this.phase = "";
      this.queue.push(frame);
    } else if ("h" in frame) {
      if (!this.firstThought) this.firstThought = performance.now();
      this.think.hidden = false;
      this.phase = "";
      this.queue.push(frame);
    } else if (frame.wait) {
      this.phase = frame.wait;
    } else if (frame.reading) {
      const { done, of } = frame.reading;
      if (frame.blocks) {
        this.rendered = true;
        this.show();
      }
      this.phase = of ? `Reading the prompt, ${count(done)} of ${count(of)} tokens` : "Reading the prompt";
    } else if (frame.live) {
      const speed = frame.live.speed;
      this.live.textContent = `${count(frame.live.tokens)} tokens${speed ? ` · ${speed.toFixed(speed < 100 ? 1 : 0)} tok/s` : ""}`;
    }
    this.schedule();
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    // A hidden tab gets no animation frames, but must not fall behind either.
    if (document.hidden) this.draw();
    else requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.scheduled = false;
    const queue = this.queue;
    this.queue = [];
    for (const frame of queue) {
      if ("t" in frame) this.body.add(frame);
      else this.thoughts.append(frame.h);
    }
    if (!queue.length || this.phase) this.tick();
    else this.phaseNode.hidden = true;
    this.onDraw();
  }

  endThinking() {
    if (!this.firstThought || this.thoughtFor) return;
    this.thoughtFor = (performance.now() - this.firstThought) / 1000;
    this.thinkTitle.textContent = `Thought for ${seconds(this.thoughtFor)}`;
  }

  // Says what is going on while nothing comes, with the seconds that passed.
  tick() {
    const now = performance.now();
    if (this.firstThought && !this.thoughtFor) {
      this.thinkTitle.textContent = `Thinking, ${Math.floor((now - this.firstThought) / 1000)} s`;
    }
    const silent = now - this.last;
    let phase = this.phase;
    if (!phase && silent > 2500) phase = "Waiting for the next token";
    const since = phase && this.phase ? now - this.started : silent;
    if (phase && since > 1500) phase += ` · ${Math.floor(since / 1000)} s`;
    if (this.phaseNode.textContent !== phase) this.phaseNode.textContent = phase;
    this.phaseNode.hidden = !phase;
  }

  end() {
    clearInterval(this.timer);
    this.draw();
    this.node.setAttribute("aria-busy", "false");
  }
}
