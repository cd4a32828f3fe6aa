// An answer that grows and shrinks by tokens. A token costs the same wherever it stands: what is shown is never drawn
// again. Neighbours of one origin share a span.
import { el } from "./dom.js";

const ORIGINS = { 1: "b-draft", 0: "b-target" };

export class TokenText {
  constructor(label) {
    this.thoughts = el("div", { class: "r-thoughts", hidden: true });
    this.answer = el("div", { class: "r-answer" });
    this.node = el("div", { class: "r-text", tabindex: "0", role: "region", "aria-label": label }, this.thoughts, this.answer);
  }

  append(text, origin, thinking) {
    const place = thinking ? this.thoughts : this.answer;
    const kind = ORIGINS[origin] ?? "r-unknown";
    const last = place.lastChild;
    if (last && last.className === kind) last.firstChild.appendData(text);
    else place.append(el("span", { class: kind }, text));
    if (thinking) place.hidden = false;
  }

  // Takes `length` characters off the end.
  cut(length, thinking) {
    const place = thinking ? this.thoughts : this.answer;
    for (let left = length; left > 0 && place.lastChild; ) {
      const node = place.lastChild.firstChild;
      if (node.length > left) {
        node.deleteData(node.length - left, left);
        break;
      }
      left -= node.length;
      place.lastChild.remove();
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
