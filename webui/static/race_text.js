// An answer that grows and shrinks by tokens. A token costs the same wherever it stands: what is shown is never drawn
// again, neighbours of one origin share a span, and a long text is laid out in blocks that end where a line ends.
import { el } from "./dom.js";

const ORIGINS = { 1: "b-draft", 0: "b-target" };
const LONG = 1200; // characters after which the next line begins a new block

export class TokenText {
  constructor(label) {
    this.thoughts = el("div", { class: "r-thoughts", hidden: true });
    this.answer = el("div", { class: "r-answer" });
    this.node = el("div", { class: "r-text", tabindex: "0", role: "region", "aria-label": label }, this.thoughts, this.answer);
  }

  append(text, origin, thinking) {
    const place = thinking ? this.thoughts : this.answer;
    if (thinking) place.hidden = false;
    for (let rest = text; rest; ) {
      let block = place.lastChild;
      if (!block || block.ended) {
        block = el("div");
        block.size = 0;
        place.append(block);
      }
      const line = block.size > LONG ? rest.indexOf("\n") : -1;
      add(block, line < 0 ? rest : rest.slice(0, line), ORIGINS[origin] ?? "r-unknown");
      if (line < 0) return;
      // Its own line break would show as an empty line: it is only remembered.
      block.ended = true;
      rest = rest.slice(line + 1);
    }
  }

  // Takes `length` characters off the end.
  cut(length, thinking) {
    const place = thinking ? this.thoughts : this.answer;
    for (let left = length; left > 0 && place.lastChild; ) {
      const block = place.lastChild;
      if (block.ended) {
        block.ended = false;
        left -= 1;
      } else {
        left -= take(block, left);
        if (!block.firstChild) block.remove();
      }
    }
    if (thinking) place.hidden = !place.firstChild;
  }

  clear() {
    this.thoughts.replaceChildren();
    this.answer.replaceChildren();
    this.thoughts.hidden = true;
  }

  toEnd() {
    this.node.scrollTop = this.node.scrollHeight;
  }
}

function add(block, text, kind) {
  if (!text) return;
  block.size += text.length;
  const last = block.lastChild;
  if (last && last.className === kind) last.firstChild.appendData(text);
  else block.append(el("span", { class: kind }, text));
}

// Takes at most `length` characters off the last span; gives how many.
function take(block, length) {
  const span = block.lastChild;
  if (!span) return 0;
  const text = span.firstChild;
  const taken = Math.min(length, text.length);
  block.size -= taken;
  if (taken === text.length) span.remove();
  else text.deleteData(text.length - taken, taken);
  return taken;
}
