// What the plots share: drawn to the width that there is, in shapes and dashes that can be told apart without colour.
import { el } from "./dom.js";
import { svg } from "./race_ribbon.js";

export { svg };

export const speed = (value) => (value === null ? "–" : value.toFixed(value < 100 ? 1 : 0));

// A figure that draws itself again when its width changes. `draw(width)` gives {height, nodes}.
export function plot(title, told, caption, draw) {
  const picture = svg("svg", { role: "img", class: "l-plot" });
  const say = [svg("title", {}, title), svg("desc", {}, told)];
  picture.setAttribute("aria-label", `${title}. ${told}`);
  const node = el("figure", { class: "l-figure" }, el("figcaption", {}, caption), picture);
  let drawn = 0;
  const redraw = () => {
    const width = Math.floor(node.clientWidth);
    if (!width || width === drawn) return;
    drawn = width;
    const { height, nodes } = draw(width);
    picture.setAttribute("width", width);
    picture.setAttribute("height", height);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.replaceChildren(...say, ...nodes);
  };
  new ResizeObserver(redraw).observe(node);
  return node;
}

// Round numbers from 0 to at least `most`, about `wanted` of them.
export function ticks(most, wanted) {
  const raw = most / wanted;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * unit).find((it) => it >= raw * 0.999);
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, at) => +(at * step).toPrecision(12));
}

export const line = (x1, y1, x2, y2, kind) => svg("line", { x1, y1, x2, y2, class: kind });

export const text = (x, y, words, props = {}) => svg("text", { x, y, ...props }, words);

export const path = (points, kind) => svg("path", { d: points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join(""), class: kind });

// Marks are as wide as their neighbours, so that none looks like more.
export function mark(shape, x, y, kind) {
  if (shape === "circle") return svg("circle", { cx: x, cy: y, r: 4.500, class: kind });
  if (shape === "square") return svg("rect", { x: x - 4, y: y - 4, width: 8, height: 8, class: kind });
  return svg("path", { d: `M${x} ${y - 5.500}l5.500 5.500l-5.500 5.500l-5.500 -5.500z`, class: kind });
}

export const ring = (x, y) => svg("circle", { cx: x, cy: y, r: 9, class: "l-ring" });

// Two labels on one edge do not stand on one another.
export function apart(first, second, least, low, high) {
  const [upper, lower] = first <= second ? [first, second] : [second, first];
  const gap = Math.max(0, least - (lower - upper)) / 2;
  let [a, b] = [upper - gap, lower + gap];
  const shift = Math.max(0, low - a) - Math.max(0, b - high);
  [a, b] = [a + shift, b + shift];
  return first <= second ? [a, b] : [b, a];
}

export function numbers(caption, titles, rows) {
  return el(
    "div",
    { class: "b-table l-numbers", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", { class: "b-hidden" }, caption),
      el("thead", {}, el("tr", {}, ...titles.map((title) => el("th", { scope: "col" }, title)))),
      el("tbody", {}, ...rows.map(([first, ...rest]) => el("tr", {}, el("th", { scope: "row" }, first), ...rest.map((value) => el("td", {}, value))))),
    ),
  );
}
