// A lab that is over: what to use, the table, draft lengths, temperatures, the conditions.
import { el } from "./dom.js";
import { adviceNode } from "./lab_advice.js";
import { LabTable } from "./lab_table.js";
import { sweepSection } from "./lab_sweep.js";
import { temperatureSection } from "./lab_temperature.js";

const FORMS = [["markdown", "Markdown"], ["csv", "CSV"], ["json", "JSON"]];

function headNode(view, tools) {
  const resume = view.resumable && tools.kept;
  const left = view.rows.filter((row) => !row.runs && !row.failed).length;
  return el(
    "section",
    { class: "r-card l-verdict", "aria-label": "What to use" },
    el("h2", {}, "What to use on this machine"),
    el("p", { class: ["failed", ""].includes(view.ended) ? "r-problem" : view.ended === "stopped" ? "r-problem r-stopped" : "b-muted" }, view.how),
    view.failures.length > 0 && el("ul", { class: "r-warnings" }, ...view.failures.map(([name, why]) => el("li", {}, `${name} was left out: ${why}`))),
    view.advice.length > 0 ? el("div", { class: "l-advices" }, ...view.advice.map((one) => adviceNode(one, { ask: tools.kept ? { lab: view.id, purpose: one.purpose } : null, learned: tools.learned }))) : el("p", { class: "b-muted" }, "Nothing was measured yet."),
    view.practice && el("p", { class: "b-muted" }, "Run with the practice pair, which is not a language model: its speeds say nothing about a real one."),
    tools.kept && el(
      "div",
      { class: "l-actions" },
      resume && el("button", { type: "button", class: "b-button", onclick: () => tools.resume(view.id) }, "Go on with it"),
      exportNode(view.id),
    ),
    resume && el("p", { class: "b-muted l-small" }, left ? `${left} of ${view.rows.length} cells are not measured yet; nothing is measured twice.` : "Every cell has an answer; going on makes the figures surer."),
  );
}

function exportNode(id) {
  const save = (form) => {
    const link = el("a", { href: `/bonsai/labs/${id}/export?form=${form}`, download: "" });
    document.body.append(link);
    link.click();
    link.remove();
  };
  return el(
    "details",
    { class: "r-more r-export" },
    el("summary", {}, "Export"),
    el("p", { class: "b-muted" }, "The table, the draft lengths, the advice and the conditions; no answer's text."),
    el("div", { class: "r-buttons" }, ...FORMS.map(([form, label]) => el("button", { type: "button", class: "b-button", onclick: () => save(form) }, label))),
  );
}

function conditionsNode(view) {
  const terms = (rows) => el("dl", { class: "r-about" }, ...rows.flatMap(([what, value]) => [el("dt", {}, what), el("dd", {}, value)]));
  return el(
    "details",
    { class: "r-card r-conditions" },
    el("summary", {}, "Prompts, machine, command lines, and what could not be measured"),
    el("h3", {}, "Conditions"),
    terms(view.about),
    view.refused.length > 0 && el("h3", {}, "Could not be measured here"),
    view.refused.length > 0 && terms(view.refused),
    ...view.prompts.flatMap(([kind, text]) => [el("h3", {}, `Prompt for ${kind}`), el("pre", { class: "r-pre", tabindex: "0" }, text)]),
    ...view.commands.flatMap(([name, line]) => [el("h3", {}, `Command line of ${name}`), el("pre", { class: "r-pre", tabindex: "0" }, line)]),
  );
}

// `tools`: {kept, resume(id), learned(found)}.
export function resultOf(view, tools) {
  const table = el("section", { class: "r-card", "aria-label": "All figures" }, el("h2", {}, "All figures"), new LabTable(view.rows).node);
  const parts = view.advice.length ? [table, sweepSection(view.sweeps), temperatureSection(view.temperatures)] : [];
  return el("div", { class: "r-result l-result" }, headNode(view, tools), ...parts, conditionsNode(view));
}
