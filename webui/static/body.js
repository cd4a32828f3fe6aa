// The text of a running answer. Finished blocks come as HTML from the server and are never touched again; only the
// block in progress changes, so that the cost of a piece does not grow with the answer.
import { el } from "./dom.js";
import { append, legend } from "./tint.js";

const DEEPER = new Set(["P", "LI", "UL", "OL", "BLOCKQUOTE", "H3", "H4", "H5", "H6"]);
const MARKS = /(^|\n)[ ]{0,3}(`+|~+)[ ]*$/;
const LONG = 1500; // characters of plain text after which the next line begins a new block

export class Body {
  constructor() {
    this.node = el("div", { class: "b-text" });
    this.raw = "";
    this.runs = [];
    this.rendered = false; // whether the server draws
  }

  // Show everything so far in the way chosen now: "tint", "html" or "plain".
  begin(mode) {
    this.mode = mode;
    this.html = "";
    this.tail = "";
    this.shown = 0;
    this.code = null;
    this.block = null;
    this.node.className = mode === "html" ? "b-text b-md" : "b-text b-plain";
    this.node.replaceChildren();
    if (this.raw) this.draw(this.raw, this.runs);
  }

  add(frame) {
    this.raw += frame.t;
    const runs = frame.r ?? [[frame.t.length, -1]];
    this.runs.push(...runs);
    if (this.mode === "html") this.drawHtml(frame);
    else this.draw(frame.t, runs);
  }

  draw(text, runs) {
    if (this.mode === "tint") this.drawTinted(text, runs);
    else this.drawPlain(text);
  }

  drawTinted(text, runs) {
    if (!this.block) {
      this.block = el("div");
      this.node.append(this.block, legend());
    }
    append(this.block, text, runs);
  }

  drawPlain(text) {
    let rest = text;
    while (rest) {
      if (!this.block) {
        this.block = el("div");
        this.node.append(this.block);
        this.shown = 0;
      }
      const line = this.shown + rest.length > LONG ? rest.indexOf("\n") : -1;
      // A block ends where a line ends; its own line break would show as an empty line.
      this.block.append(line < 0 ? rest : rest.slice(0, line));
      this.shown += rest.length;
      if (line < 0) return;
      rest = rest.slice(line + 1);
      this.block = null;
    }
  }

  drawHtml(frame) {
    this.tail += frame.t;
    for (const [kind, length, value] of frame.o ?? []) {
      if (kind === "b") this.finish(length, value);
      else if (kind === "c") this.openCode(length, value);
      else this.provisional(length, value);
    }
    this.drawRest();
  }

  current() {
    if (!this.block) {
      this.block = el("div", { class: "b-block" });
      this.node.append(this.block);
    }
    return this.block;
  }

  finish(length, html) {
    this.current().innerHTML = html;
    this.block = null;
    this.code = null;
    this.html += html;
    this.tail = this.tail.slice(length);
    this.shown = 0;
  }

  openCode(length, language) {
    this.code = el("code");
    this.current().replaceChildren(
      el("div", { class: "b-code" }, el("div", { class: "b-code-head" }, el("span", {}, language || "text")), el("pre", {}, this.code)),
    );
    this.shown = length;
  }

  provisional(length, html) {
    this.current().innerHTML = html;
    this.shown = length;
  }

  // What the server has not drawn yet goes in as text, where the block ends.
  drawRest() {
    let text = this.tail.slice(this.shown);
    if (!text) return;
    let place = this.code;
    if (place) {
      // The marks that end a code block must not flash up in it.
      const marks = MARKS.exec(text);
      if (marks) text = text.slice(0, marks.index + marks[1].length);
    } else {
      place = this.current();
      while (DEEPER.has(place.lastElementChild?.tagName)) place = place.lastElementChild;
    }
    place.append(text);
    this.shown += text.length;
  }
}
