// An answer while it comes. Text is appended, never drawn again, and in short blocks, so that the cost of a piece
// does not grow with the answer.
import { count, el, seconds } from "./dom.js";
import { state } from "./state.js";
import { append, legend } from "./tint.js";

const LONG_BLOCK = 600; // characters after which the next line break begins a new block

export class RunningAnswer {
  constructor() {
    this.started = performance.now();
    this.last = this.started;
    this.raw = "";
    this.runs = [];
    this.phase = "Sending";
    this.firstThought = 0;
    this.queue = [];
    this.scheduled = false;
    this.onDraw = () => {};
    this.phaseNode = el("p", { class: "b-phase" });
    this.thoughts = el("div", { class: "b-thoughts b-plain" });
    this.thinkTitle = el("summary", {}, "Thinking");
    this.think = el("details", { class: "b-thinking", hidden: true }, this.thinkTitle, this.thoughts);
    this.text = el("div", { class: "b-text b-plain" });
    this.live = el("p", { class: "b-figures b-live", "aria-hidden": "true" });
    this.node = el(
      "article",
      { class: "b-turn b-answer b-running", "aria-label": "Answer", "aria-busy": "true" },
      this.phaseNode,
      this.think,
      this.text,
      this.live,
    );
    this.timer = setInterval(() => this.tick(), 500);
    this.begin();
  }

  // An empty body in the way the text is shown now.
  begin() {
    this.tint = Boolean(state.settings.tint);
    this.text.replaceChildren();
    this.block = null;
    this.blockLength = 0;
    this.thoughtBlock = null;
    this.tick();
  }

  frame(frame) {
    this.last = performance.now();
    if ("t" in frame) {
      this.raw += frame.t;
      this.endThinking();
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
      if ("t" in frame) this.addText(frame);
      else this.thoughts.append(frame.h);
    }
    if (!queue.length || this.phase) this.tick();
    else this.phaseNode.hidden = true;
    this.onDraw();
  }

  addText(frame) {
    if (frame.r) this.runs.push(...frame.r);
    else this.runs.push([frame.t.length, -1]);
    if (this.tint) {
      if (!this.block) {
        this.block = el("div");
        this.text.append(this.block, legend());
      }
      append(this.block, frame.t, frame.r);
      return;
    }
    let rest = frame.t;
    while (rest) {
      let cut = rest.length;
      if (this.blockLength > LONG_BLOCK || this.blankLine(rest)) {
        const line = rest.indexOf("\n");
        if (line >= 0) cut = line + 1;
      }
      if (!this.block) {
        this.block = el("div");
        this.text.append(this.block);
        this.blockLength = 0;
      }
      const piece = rest.slice(0, cut);
      rest = rest.slice(cut);
      const ends = piece.endsWith("\n") && (this.blockLength > LONG_BLOCK || this.blockLength + piece.length > LONG_BLOCK);
      // A block ends where a line ends; its own line break would show as an empty line.
      this.block.append(ends ? piece.slice(0, -1) || "\u200b" : piece);
      this.blockLength += piece.length;
      if (ends) this.block = null;
    }
  }

  blankLine(text) {
    return text.includes("\n\n") && this.blockLength + text.length > LONG_BLOCK;
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

  // The way of showing changed in mid-answer: draw what is there once more.
  redraw() {
    const runs = this.runs;
    this.runs = [];
    this.begin();
    if (this.raw) this.addText({ t: this.raw, r: runs });
  }

  end() {
    clearInterval(this.timer);
    this.draw();
    this.node.setAttribute("aria-busy", "false");
  }
}
