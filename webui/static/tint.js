// Text with the drafter's tokens marked: by colour and by a line under them.
import { el } from "./dom.js";

const KINDS = { 1: "b-draft", 0: "b-target" };

export function legend() {
  return el(
    "p",
    { class: "b-legend" },
    el("span", { class: "b-draft" }, "from the drafter"),
    ", checked and kept by the target",
    el("span", { class: "b-dot" }, "·"),
    el("span", { class: "b-target" }, "the target\u2019s own"),
  );
}

// Adds a piece to `place`; `runs` are [characters, origin]. Neighbours of one origin share a span.
export function append(place, text, runs) {
  let at = 0;
  for (const [length, origin] of runs ?? [[text.length, -1]]) {
    const piece = text.slice(at, at + length);
    at += length;
    const last = place.lastChild;
    const kind = KINDS[origin] ?? "";
    if (last && last.className === kind && last.nodeType === 1) last.lastChild.appendData(piece);
    else place.append(el("span", { class: kind || null }, piece));
  }
}

export function tinted(text, runs) {
  const place = el("div", { class: "b-text b-plain" });
  append(place, text, runs);
  return el("div", {}, place, legend());
}
