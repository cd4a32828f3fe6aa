// The table of a search: every method with its speed, its ratio to plain decoding and how it is known.
import { el } from "./dom.js";
import { speed as speedOf } from "./lab_plot.js";

export const WHOM = { coding: "For a coding assistant", chat: "For a general chat" };

function line(row) {
  const how = row.failed ? "left out: its engine failed" : row.answers ? String(row.answers) : row.ratio === null ? "" : "foreseen";
  const state = row.ratio === null ? "l-waits" : row.answers ? null : "l-foreseen";
  return el(
    "tr",
    { class: state, data: { name: row.name } },
    el("th", { scope: "row" }, row.plain ? "no draft" : row.name),
    el("td", {}, row.speed === null ? "" : speedOf(row.speed)),
    el("td", {}, row.ratio === null ? "" : row.plain ? "1" : `${row.ratio.toFixed(2)}x`),
    el("td", {}, how),
  );
}

export function knownTable(rows, purpose) {
  return el(
    "div",
    { class: "b-table l-known", tabindex: "0", role: "region", "aria-label": `What is known, ${WHOM[purpose].toLowerCase()}` },
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, ...["Method", "Tokens/s", "Ratio to plain", "Answers"].map((title) => el("th", { scope: "col" }, title)))),
      el("tbody", {}, ...rows.map(line)),
    ),
  );
}

// The row of the method that is measured now; null: none.
export function markKnown(place, name) {
  for (const row of place.querySelectorAll("tbody tr")) {
    const now = row.dataset.name === name;
    row.classList.toggle("l-now", now);
    if (now) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  }
}
