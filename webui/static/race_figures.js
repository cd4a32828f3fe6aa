// The figures of a race: a table of both sides, and how much of the draft was kept by its place in the block.
import { el } from "./dom.js";
import { svg } from "./race_ribbon.js";

export function sidesTable(names, rows) {
  return el(
    "div",
    { class: "b-table r-sides" },
    el(
      "table",
      {},
      el("caption", { class: "b-hidden" }, "Both sides, medians over the rounds"),
      el("thead", {}, el("tr", {}, el("td"), ...names.map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, ...rows.map(([what, ...values]) => el("tr", {}, el("th", { scope: "row" }, what), ...values.map((value) => el("td", {}, value))))),
    ),
  );
}

const STEP = 46;
const BAR = 26;
const HIGH = 84;

// `shares`: for each place in the draft, the share that was kept.
export function positionBars(name, shares) {
  const percent = shares.map((share) => `${Math.round(share * 100)} %`);
  const width = Math.max(1, shares.length) * STEP;
  const bars = shares.flatMap((share, at) => {
    const high = Math.max(1, share * HIGH);
    const x = at * STEP + (STEP - BAR) / 2;
    const middle = x + BAR / 2;
    return [
      svg("rect", { class: "r-bar-all", x, y: 18, width: BAR, height: HIGH, rx: 3 }),
      svg("rect", { class: "r-bar", x, y: 18 + HIGH - high, width: BAR, height: high, rx: 3 }),
      svg("text", { x: middle, y: 12, "text-anchor": "middle" }, percent[at]),
      svg("text", { class: "r-place", x: middle, y: 18 + HIGH + 15, "text-anchor": "middle" }, String(at + 1)),
    ];
  });
  const told = percent.map((text, at) => `place ${at + 1}: ${text}`).join(", ");
  return el(
    "figure",
    { class: "r-bars" },
    el("figcaption", {}, `${name}: kept, by place in the draft`),
    svg("svg", { width, height: HIGH + 38, viewBox: `0 0 ${width} ${HIGH + 38}`, role: "img", "aria-label": told }, ...bars),
  );
}

export const speedText = (speed) => (speed === null || speed === undefined ? "–" : `${speed.toFixed(speed < 100 ? 1 : 0)} tokens/s`);

export const shareText = (share) => (share === null || share === undefined ? "" : `${Math.round(share * 100)} % accepted`);
