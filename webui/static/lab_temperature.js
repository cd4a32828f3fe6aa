// What the temperature does to each method: its ratio to plain decoding at both, on one line.
import { el } from "./dom.js";
import { line, mark, numbers, plot, speed, text, ticks } from "./lab_plot.js";
import { choice, ratioNode, share } from "./lab_table.js";

const ROW = 34;
const TOP = 34;
const FOOT = 38;
const SHAPES = [["circle", "l-hollow", "○"], ["diamond", "l-full", "◆"], ["square", "l-full", "■"]];

export function temperatureSection(found) {
  const kinds = [...new Set(found.map((one) => one.kind))];
  if (!kinds.length) return null;
  const place = el("div", { class: "l-pair l-wide" });
  const draw = (kind) => {
    const rows = found.filter((one) => one.kind === kind);
    place.replaceChildren(...[effectPlot(kind, rows.filter((row) => !row.plain && row.at.every((one) => one.ratio !== null))), effectNumbers(kind, rows)].filter(Boolean));
  };
  draw(kinds[0]);
  return el("section", { class: "r-card", "aria-label": "Temperature" }, el("h2", {}, "Temperature"), choice("Text", kinds, kinds[0], "l-temperature-kind", draw), place);
}

function effectPlot(kind, rows) {
  if (!rows.length) return null;
  const temperatures = [...new Set(rows.flatMap((row) => row.at.map((one) => one.temperature)))].sort((a, b) => a - b);
  const shape = (temperature) => SHAPES[temperatures.indexOf(temperature) % SHAPES.length];
  const marks = ticks(Math.max(1, ...rows.flatMap((row) => row.at.map((one) => one.ratio))) * 1.05, 4);
  const title = `Ratio to plain decoding on ${kind} by temperature`;
  const told = rows.map((row) => `${row.name}: ${row.at.map((one) => `${one.ratio.toFixed(2)} at ${one.temperature}`).join(", ")}`).join("; ");
  const caption = el("span", {}, el("b", {}, `Ratio to plain decoding on ${kind}`), ": ", ...temperatures.flatMap((value) => [" ", el("span", { class: "l-key" }, `${shape(value)[2]} temperature ${value}`)]));
  return plot(title, told, caption, (width) => {
    const narrow = width < 460;
    const left = narrow ? 8 : 172;
    const row = narrow ? ROW + 12 : ROW;
    const right = 22;
    const x = (value) => left + (width - left - right) * (value / marks.at(-1));
    const bottom = TOP + rows.length * row;
    const nodes = [text(x(1), 14, "as fast as plain", { class: "l-label", "text-anchor": x(1) > width - 60 ? "end" : "middle" })];
    for (const value of marks) nodes.push(line(x(value), TOP - 8, x(value), bottom, "l-grid"), text(x(value), bottom + 17, `${value}x`, { class: "l-tick", "text-anchor": "middle" }));
    nodes.push(line(x(1), TOP - 12, x(1), bottom, "l-plain"));
    rows.forEach((one, at) => {
      const y = TOP + at * row + (narrow ? 26 : 14);
      const ratios = one.at.map((it) => it.ratio);
      nodes.push(text(narrow ? 8 : left - 12, narrow ? y - 13 : y + 4, one.name, { class: "l-label", "text-anchor": narrow ? "start" : "end" }));
      nodes.push(line(x(Math.min(...ratios)), y, x(Math.max(...ratios)), y, "l-line"));
      for (const it of one.at) nodes.push(mark(shape(it.temperature)[0], x(it.ratio), y, shape(it.temperature)[1]));
    });
    return { height: bottom + FOOT - 12, nodes };
  });
}

function effectNumbers(kind, rows) {
  const temperatures = [...new Set(rows.flatMap((row) => row.at.map((one) => one.temperature)))].sort((a, b) => a - b);
  const of = (row, temperature) => row.at.find((one) => one.temperature === temperature);
  const three = (one) => (one ? [speed(one.speed), ratioNode(one), share(one.acceptance)] : ["–", "–", "–"]);
  const titles = ["Method", ...temperatures.flatMap((value) => [`tokens/s at ${value}`, `Ratio at ${value}`, `Accepted at ${value}`])];
  return el("div", { class: "l-beside" }, numbers(`Temperatures on ${kind}`, titles, rows.map((row) => [row.plain ? "no draft" : row.name, ...temperatures.flatMap((value) => three(of(row, value)))])));
}
