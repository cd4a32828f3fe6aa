// The table of a lab: a row for each text and method, speed, ratio, acceptance, whether the text is the same.
import { el } from "./dom.js";
import { speed as speedOf } from "./lab_plot.js";
import { wordNode } from "./race_result.js";

const MOST_ROWS = 60; // shown at once before one text is chosen
const SAME = { true: "yes", false: "no", null: "–" };

export const share = (value) => (value === null ? "–" : `${Math.round(value * 100)} %`);
export const temperature = (value) => `temperature ${value}`;
export const span = (spread) => (spread ? `${spread[0].toFixed(2)} to ${spread[1].toFixed(2)}` : "–");

export function ratioNode(row) {
  if (row.plain) return "1";
  if (row.ratio === null) return "–";
  const words = `${row.ratio.toFixed(2)}x`;
  // "No difference" is a finding; answers that differ too much to tell are none.
  if (row.word === "no difference" && !row.narrow) return el("span", { class: "r-word l-unknown", title: "not told apart from plain" }, el("span", { class: "r-sign" }, "?"), words);
  return wordNode(row.word, words);
}

const TITLES = ["Method", "Generation, tokens/s", "Ratio to plain", "Spread", "Acceptance", "Identical at temperature 0", "Notes"];

function cells(row, live) {
  const waits = row.runs === 0;
  const notes = row.failed ? ["left out: its engine failed"] : row.notes;
  return [
    waits ? (live ? "" : "not measured") : speedOf(row.speed),
    ratioNode(row),
    row.plain ? "–" : span(row.spread),
    share(row.acceptance),
    SAME[row.identical],
    live ? (waits ? "" : `${row.runs}${row.narrow ? ", sure" : ""}`) : notes.join(", "),
  ];
}

// Choices of which one is taken; none are shown where there is nothing to choose.
export function choice(legend, values, chosen, name, onchange) {
  if (values.length < 2) return null;
  return el(
    "fieldset",
    { class: "r-radios l-filter" },
    el("legend", {}, legend),
    ...values.map((value) =>
      el("label", {}, el("input", { type: "radio", name, value, checked: value === chosen, onchange: () => onchange(value) }), el("span", {}, String(value))),
    ),
  );
}

let tables = 0;

export class LabTable {
  // `live`: rows fill in; the last column counts answers.
  constructor(rows, { live = false } = {}) {
    this.live = live;
    this.rows = new Map();
    tables += 1;
    const kinds = [...new Set(rows.map((row) => row.kind))];
    this.groups = [];
    const titles = live ? [...TITLES.slice(0, -1), "Answers"] : TITLES;
    const table = el(
      "table",
      {},
      el("caption", { class: "b-hidden" }, "Every text and method: speed, ratio to plain decoding, acceptance"),
      el("thead", {}, el("tr", {}, ...titles.map((title) => el("th", { scope: "col" }, title)))),
    );
    const groups = new Map();
    for (const row of rows) {
      const name = `${row.kind}, ${temperature(row.temperature)}`;
      if (!groups.has(name)) {
        const body = el("tbody", { data: { kind: row.kind } }, el("tr", { class: "l-group-row" }, el("th", { scope: "rowgroup", colspan: titles.length }, name)));
        groups.set(name, body);
        this.groups.push(body);
        table.append(body);
      }
      const line = el("tr", {});
      this.rows.set(row.key, line);
      groups.get(name).append(line);
      this.update(row);
    }
    const all = rows.length <= MOST_ROWS;
    const choices = ["all", ...kinds];
    this.show(all ? "all" : kinds[0]);
    this.node = el(
      "div",
      {},
      rows.length > 12 && kinds.length > 1 && choice("Text", choices, all ? "all" : kinds[0], `l-table-${tables}`, (kind) => this.show(kind)),
      el("div", { class: "b-table l-table", tabindex: "0", role: "region", "aria-label": "Table of the lab" }, table),
    );
  }

  show(kind) {
    for (const body of this.groups) body.hidden = kind !== "all" && body.dataset.kind !== kind;
  }

  update(row) {
    const line = this.rows.get(row.key);
    line.classList.toggle("l-waits", row.runs === 0);
    line.replaceChildren(el("th", { scope: "row" }, row.plain ? "no draft" : row.name), ...cells(row, this.live).map((value) => el("td", {}, value)));
  }

  // The row that is being measured; none: null.
  mark(key) {
    for (const [own, line] of this.rows) {
      const now = own === key;
      if (line.classList.contains("l-now") === now) continue;
      line.classList.toggle("l-now", now);
      if (now) line.setAttribute("aria-current", "true");
      else line.removeAttribute("aria-current");
    }
  }
}
