// The whole set: how far it is, and the table by kind of text.
import { complain, toast } from "./dialog.js";
import { copyText, el } from "./dom.js";
import { wordNode } from "./race_result.js";

const figure = (value, digits) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const SAME = { true: "identical", false: "differ", null: "–" };

const cells = (row) => [
  row.kind,
  row.language || "–",
  figure(row.rates[0], 1),
  figure(row.rates[1], 1),
  row.ratio === null ? "–" : `${row.ratio.toFixed(2)}x`,
  row.spread ? `${row.spread[0].toFixed(2)} to ${row.spread[1].toFixed(2)}` : "–",
  row.word || "–",
  row.acceptance === null ? "–" : `${Math.round(row.acceptance * 100)} %`,
  SAME[row.identical],
];

export class SetTable {
  // `open(id)` shows one race of it.
  constructor(total, open) {
    this.total = total;
    this.open = open;
    this.rows = [];
    this.progress = el("progress", { max: total, value: 0, "aria-label": "Races done" });
    this.state = el("span", { class: "b-muted" }, `0 of ${total}`);
    this.body = el("tbody");
    this.head = el("tr");
    this.node = el(
      "section",
      { class: "r-card r-set-table", "aria-label": "By kind of text" },
      el("div", { class: "r-head" }, el("h2", {}, "By kind of text"), el("span", { class: "r-progress" }, this.progress, this.state)),
      el("div", { class: "b-table" }, el("table", {}, el("caption", { class: "b-hidden" }, "Both sides by kind of text"), el("thead", {}, this.head), this.body)),
      (this.copy = el("button", { type: "button", class: "b-button", hidden: true, onclick: () => copyText(this.markdown()).then(() => toast("Copied"), complain) }, "Copy as Markdown")),
    );
  }

  add(row) {
    if (!this.rows.length) {
      this.titles = ["Text", "Language", `${row.names[0]}, tokens/s`, `${row.names[1]}, tokens/s`, "Ratio", "Spread", "Verdict", "Acceptance", "Texts"];
      this.head.replaceChildren(...this.titles.map((title) => el("th", { scope: "col" }, title)));
    }
    this.rows.push(row);
    this.progress.value = this.rows.length;
    this.state.textContent = `${this.rows.length} of ${this.total}`;
    const [kind, ...rest] = cells(row);
    const name = el("th", { scope: "row" }, el("button", { type: "button", class: "r-link", onclick: () => this.open(row.id) }, kind));
    this.body.append(el("tr", {}, name, ...rest.map((value) => el("td", {}, value === row.word ? wordNode(value) : value))));
    if (row.problem) this.body.append(el("tr", {}, el("td", { colspan: "9", class: "r-problem" }, row.problem)));
  }

  markdown() {
    const line = (values) => `| ${values.join(" | ")} |\n`;
    return [this.titles, this.titles.map(() => "---"), ...this.rows.map(cells)].map(line).join("");
  }

  over({ ended, races }) {
    this.copy.hidden = !this.rows.length;
    this.state.textContent = races < this.total ? `${ended} after ${races} of ${this.total}` : `${races} of ${this.total}, done`;
  }
}
