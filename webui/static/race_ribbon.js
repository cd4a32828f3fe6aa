// The ribbon of verify blocks: what was drafted, how much of it the target kept, and its own token after it. Three
// paths for any number of blocks; following the time moves two rectangles.
import { el } from "./dom.js";

const CELL = 10; // width of a token
const SIZE = 7; // of its mark
const GAP = 7; // between blocks
const HEIGHT = 22;
const TOP = 7;

export function svg(tag, props = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export class Ribbon {
  // `steps`: [milliseconds, drafted, accepted]; `offset` is added to their times; `onPick(ms)` is told of clicks.
  constructor(steps, offset, onPick) {
    this.steps = steps;
    this.times = steps.map(([ms]) => ms + offset);
    this.edges = [0];
    this.sums = [[0, 0]];
    const paths = { accepted: "", rejected: "", own: "" };
    let x = GAP / 2;
    for (const [, drafted, accepted] of steps) {
      for (let at = 0; at < drafted; at += 1, x += CELL) paths[at < accepted ? "accepted" : "rejected"] += `M${x} ${TOP}h${SIZE}v${SIZE + 1}h-${SIZE}z`;
      paths.own += `M${x + 1} ${TOP + 4}a2.500 2.500 0 1 0 5 0a2.500 2.500 0 1 0 -5 0`;
      x += CELL + GAP;
      this.edges.push(x - GAP / 2);
      const [before, kept] = this.sums.at(-1);
      this.sums.push([before + drafted, kept + accepted]);
    }
    const [drafted, accepted] = this.sums.at(-1);
    this.later = svg("rect", { class: "r-later", x: 0, y: 0, width: x, height: HEIGHT });
    this.now = svg("rect", { class: "r-now", x: -50, y: 1.5, rx: 4, width: 1, height: HEIGHT - 3 });
    const picture = svg(
      "svg",
      { width: x, height: HEIGHT, viewBox: `0 0 ${x} ${HEIGHT}`, role: "img",
        "aria-label": `${steps.length} verify blocks: ${accepted} of ${drafted} drafted tokens accepted` },
      ...Object.entries(paths).map(([name, d]) => svg("path", { class: `r-${name}`, d })),
      this.later,
      this.now,
    );
    this.strip = el("div", { class: "r-strip" }, picture);
    this.strip.addEventListener("click", (event) => {
      const at = event.clientX - picture.getBoundingClientRect().left;
      const block = this.edges.findIndex((edge) => edge > at) - 1;
      if (block >= 0) onPick(this.times[block]);
    });
    this.caption = el("p", { class: "r-caption" });
    this.node = el("div", { class: "r-ribbon", data: { blocks: steps.length, drafted, accepted } }, this.strip, this.caption);
    this.shown = -1;
  }

  seek(ms) {
    const done = upTo(this.times, ms);
    if (done === this.shown) return;
    this.shown = done;
    this.later.setAttribute("transform", `translate(${this.edges[done]} 0)`);
    if (done) {
      const from = this.edges[done - 1];
      this.now.setAttribute("x", from + 1);
      this.now.setAttribute("width", this.edges[done] - from - 2);
    } else {
      this.now.setAttribute("x", -50);
    }
    this.follow();
    const [, drafted, accepted] = done ? this.steps[done - 1] : [0, 0, 0];
    const [allDrafted, allAccepted] = this.sums[done];
    this.caption.textContent = done
      ? `Block ${done} of ${this.steps.length}: ${accepted} of ${drafted} accepted · so far ${allAccepted} of ${allDrafted}`
      : `${this.steps.length} verify blocks`;
  }

  // Brings the block on show into view.
  follow() {
    this.strip.scrollLeft = this.shown > 0 ? this.edges[this.shown] - this.strip.clientWidth * 0.7 : 0;
  }
}

// How many of the sorted `times` are not after `ms`.
export function upTo(times, ms) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= ms) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function ribbonLegend() {
  const mark = (kind, d) => svg("svg", { width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("path", { class: kind, d }));
  return el(
    "p",
    { class: "r-legend" },
    el("span", {}, el("span", { class: "b-draft" }, "text"), " from the drafter"),
    el("span", {}, mark("r-accepted", "M2 2h8v8h-8z"), " accepted"),
    el("span", {}, mark("r-rejected", "M2 2h8v8h-8z"), " rejected"),
    el("span", {}, mark("r-own", "M3 6a3 3 0 1 0 6 0a3 3 0 1 0 -6 0"), " the target\u2019s own"),
  );
}
