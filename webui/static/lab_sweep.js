// Speed and acceptance against the draft length: the best length marked, plain decoding as a line, and below the share
// that is accepted with the share that would be needed to be as fast as plain.
import { el } from "./dom.js";
import { apart, line, mark, numbers, path, plot, ring, speed, text, ticks } from "./lab_plot.js";
import { choice, share, span, temperature } from "./lab_table.js";

const LEFT = 50;
const RIGHT = 86;
const TOP = 22;
const HIGH = 170; // of the speeds
const BETWEEN = 46;
const LOW = 120; // of the shares
const FOOT = 40;

const percent = (value) => (value > 1 ? "over 100 %" : `${Math.round(Math.max(0, value) * 100)} %`);

const listed = (values) => (values.length < 2 ? String(values[0]) : `${values.slice(0, -1).join(", ")} and ${values.at(-1)}`);

export function sweepSection(sweeps) {
  const worth = sweeps.filter((sweep) => sweep.points.length > 1);
  if (!worth.length) return null;
  const place = el("div", { class: "l-pair" });
  const wanted = { name: worth[0].name, kind: worth[0].kind, temperature: worth[0].temperature };
  const draw = () => {
    const found = worth.find((it) => it.name === wanted.name && it.kind === wanted.kind && it.temperature === wanted.temperature);
    place.replaceChildren(...(found ? [sweepPlot(found), sweepNumbers(found)] : [el("p", { class: "b-muted" }, "Not measured.")]));
  };
  const values = (field) => [...new Set(worth.map((it) => it[field]))];
  const pick = (field) => (value) => { wanted[field] = value; draw(); };
  draw();
  return el(
    "section",
    { class: "r-card", "aria-label": "Draft length" },
    el("h2", {}, "Draft length"),
    el(
      "div",
      { class: "l-filters" },
      choice("Method", values("name"), wanted.name, "l-sweep-name", pick("name")),
      choice("Text", values("kind"), wanted.kind, "l-sweep-kind", pick("kind")),
      choice("Temperature", values("temperature"), wanted.temperature, "l-sweep-temperature", pick("temperature")),
    ),
    place,
  );
}

function sweepPlot(sweep) {
  const { points } = sweep;
  const best = points.find((point) => point.n_max === sweep.best);
  const title = `${sweep.name} on ${sweep.kind}, ${temperature(sweep.temperature)}`;
  const told = points
    .map((point) => {
      const needed = point.break_even === null ? "" : `, ${percent(point.break_even)} needed`;
      const accepted = point.acceptance === null ? "" : `, ${share(point.acceptance)} accepted${needed}`;
      return `length ${point.n_max}: ${point.ratio.toFixed(2)} times plain, ${speed(point.tokens_per_second)} tokens/s${accepted}`;
    })
    .join("; ");
  const caption = el("span", {}, el("b", {}, title), ` – the best length is ${best.n_max}${sweep.ties.length ? `; ${listed(sweep.ties)} may be as fast` : ""}`);
  return plot(title, `Best length ${best.n_max}. ${told}. Plain decoding: ${speed(sweep.plain)} tokens/s.`, caption, (width) => ({
    height: TOP + HIGH + BETWEEN + LOW + FOOT,
    nodes: [...speeds(sweep, width), ...shares(sweep, width)],
  }));
}

function across(points, width) {
  const inner = width - LEFT - RIGHT;
  const step = inner / points.length;
  return (at) => LEFT + step * (at + 0.5);
}

function speeds(sweep, width) {
  const { points } = sweep;
  const x = across(points, width);
  const marks = ticks(Math.max(1, ...points.map((point) => point.ratio)) * 1.12, 4);
  const most = marks.at(-1);
  const y = (value) => TOP + HIGH * (1 - Math.min(value / most, 1));
  const found = [text(0, 12, "speed, times plain decoding", { class: "l-axis" })];
  for (const value of marks) {
    found.push(line(LEFT, y(value), width - RIGHT, y(value), "l-grid"), text(LEFT - 7, y(value) + 4, `${value}x`, { class: "l-tick", "text-anchor": "end" }));
  }
  const bestAt = points.findIndex((point) => point.n_max === sweep.best);
  found.push(line(x(bestAt), TOP, x(bestAt), TOP + HIGH + BETWEEN + LOW, "l-best-line"));
  found.push(line(LEFT, y(1), width - RIGHT, y(1), "l-plain"));
  // The interval of the ratio; what leaves the plot ends in an arrow.
  points.forEach(({ spread: [low, high] }, at) => {
    const top = y(high);
    found.push(line(x(at), y(low), x(at), top, "l-whisker"), line(x(at) - 4, y(low), x(at) + 4, y(low), "l-whisker"));
    if (high <= most) found.push(line(x(at) - 4, top, x(at) + 4, top, "l-whisker"));
    else found.push(path([[x(at) - 4, top + 5], [x(at), top], [x(at) + 4, top + 5]], "l-whisker l-open"));
  });
  found.push(path(points.map((point, at) => [x(at), y(point.ratio)]), "l-line"));
  points.forEach((point, at) => found.push(mark("circle", x(at), y(point.ratio), "l-full")));
  const bestY = y(points[bestAt].ratio);
  found.push(ring(x(bestAt), bestY));
  const end = bestAt === points.length - 1;
  found.push(text(x(bestAt) + (end ? -13 : 13), bestY - 9, `best: ${sweep.best}`, { class: "l-label l-strong", "text-anchor": end ? "end" : "start" }));
  const [ownY, plainY] = apart(y(points.at(-1).ratio), y(1), 15, TOP + 4, TOP + HIGH);
  found.push(
    text(width - RIGHT + 6, ownY + 4, `● ${points.at(-1).ratio.toFixed(2)}x`, { class: "l-label" }),
    text(width - RIGHT + 6, plainY + 4, "┈ plain", { class: "l-label" }),
  );
  return found;
}

function shares(sweep, width) {
  const { points } = sweep;
  const x = across(points, width);
  const top = TOP + HIGH + BETWEEN;
  const y = (value) => top + LOW * (1 - Math.min(Math.max(value, 0), 1));
  const found = [text(0, top - 12, "share of the draft", { class: "l-axis" })];
  for (const value of [0, 0.25, 0.5, 0.75, 1]) {
    found.push(line(LEFT, y(value), width - RIGHT, y(value), "l-grid"), text(LEFT - 7, y(value) + 4, `${value * 100} %`, { class: "l-tick", "text-anchor": "end" }));
  }
  points.forEach((point, at) => found.push(text(x(at), top + LOW + 17, String(point.n_max), { class: "l-tick", "text-anchor": "middle" })));
  found.push(text(LEFT + (width - LEFT - RIGHT) / 2, top + LOW + 34, "draft length, tokens", { class: "l-axis", "text-anchor": "middle" }));
  const needed = points.map((point, at) => [x(at), point.break_even, at]).filter(([, value]) => value !== null);
  const accepted = points.map((point, at) => [x(at), point.acceptance, at]).filter(([, value]) => value !== null);
  const both = [];
  if (needed.length) {
    found.push(path(needed.map(([at, value]) => [at, y(value)]), "l-line l-dashed"));
    for (const [at, value] of needed) {
      found.push(mark("diamond", at, y(value), "l-hollow"));
      if (value > 1) found.push(path([[at - 4, top - 5], [at, top - 10], [at + 4, top - 5]], "l-whisker l-open"));
    }
    both.push(y(needed.at(-1)[1]));
  }
  if (accepted.length) {
    found.push(path(accepted.map(([at, value]) => [at, y(value)]), "l-line"));
    for (const [at, value, index] of accepted) {
      found.push(mark("square", at, y(value), "l-full"));
      if (points[index].n_max === sweep.best) found.push(ring(at, y(value)));
    }
    const end = y(accepted.at(-1)[1]);
    const [ownY, neededY] = both.length ? apart(end, both[0], 15, top + 2, top + LOW) : [end];
    found.push(text(width - RIGHT + 6, ownY + 4, "■ accepted", { class: "l-label" }));
    if (both.length) found.push(text(width - RIGHT + 6, neededY + 4, "◇ needed", { class: "l-label" }));
  }
  return found;
}

function sweepNumbers(sweep) {
  const rows = sweep.points.map((point) => [
    el("span", {}, String(point.n_max), point.n_max === sweep.best && el("b", {}, " best")),
    speed(point.tokens_per_second),
    `${point.ratio.toFixed(2)}x`,
    span(point.spread),
    share(point.acceptance),
    point.break_even === null ? "–" : percent(point.break_even),
  ]);
  rows.unshift(["plain", speed(sweep.plain), "1", "–", "–", "–"]);
  const costs = sweep.plain_s === null ? null : costsNode(sweep);
  return el(
    "div",
    { class: "l-beside" },
    numbers(`Draft lengths of ${sweep.name} on ${sweep.kind}`, ["Length", "tokens/s", "Ratio", "Spread", "Accepted", "Needed"], rows),
    el("p", { class: "b-muted l-small" }, `Drafting pays where the accepted share lies above the needed one (the break-even acceptance, from the measured times of a step). The thin bars are the ${Math.round(sweep.confidence * 100)} % intervals.`),
    costs,
  );
}

function costsNode({ plain_s, fixed_s, each_s }) {
  const ms = (s) => `${(s * 1000).toFixed(s < 0.01 ? 2 : 1)} ms`;
  return el("p", { class: "b-muted l-small" }, `A plain step takes ${ms(plain_s)}; one that drafts ${ms(fixed_s)} and ${ms(each_s)} for each drafted token.`);
}
