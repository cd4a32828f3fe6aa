// What a search came to: what to use for each purpose, how sure that is, and how it is known.
import { el } from "./dom.js";
import { adviceNode } from "./lab_advice.js";
import { knownTable, WHOM } from "./lab_known.js";

function detailsNode(view) {
  return el(
    "details",
    { class: "r-card r-conditions" },
    el("summary", {}, "What is known of every method, and the machine"),
    el("p", { class: "b-muted l-small" }, "Fastest first. Foreseen: not measured, but calculated from the other draft lengths of that drafter, whose steps and acceptance were."),
    el(
      "div",
      { class: "l-parts" },
      ...view.advice.map((one) =>
        el("section", { class: "l-part", "aria-label": `Every method, ${WHOM[one.purpose].toLowerCase()}` }, el("h3", {}, WHOM[one.purpose], el("small", {}, `${one.kind}, temperature ${one.temperature}`)), knownTable(one.rows, one.purpose)),
      ),
    ),
    el("h3", {}, "Conditions"),
    el("dl", { class: "r-about" }, ...view.about.flatMap(([what, value]) => [el("dt", {}, what), el("dd", {}, value)])),
  );
}

// `learned(found)` is told when something is used.
export function foundOf(view, learned) {
  const missing = view.missing.map((purpose) => `${WHOM[purpose]} nothing is known: the search ended before.`);
  return el(
    "div",
    { class: "r-result l-result l-found" },
    el(
      "section",
      { class: "r-card l-verdict", "aria-label": "What is best here" },
      el("h2", {}, "What is best on this machine"),
      el("p", { class: view.stopped ? "r-problem r-stopped" : "b-muted" }, view.how),
      view.problem && el("p", { class: "r-problem" }, `The search ended early. ${view.problem}`),
      view.notes.length > 0 && el("ul", { class: "r-warnings" }, ...view.notes.map((note) => el("li", {}, note))),
      el("div", { class: "l-advices" }, ...view.advice.map((one) => adviceNode(one, { ask: { search: view.id, purpose: one.purpose }, learned }))),
      missing.length > 0 && el("p", { class: "b-muted" }, missing.join(" ")),
      view.practice && el("p", { class: "b-muted" }, "Run with the practice pair, which is not a language model: its speeds, and this advice, say nothing about a real one."),
      el("p", { class: "b-muted l-small" }, "What you use is remembered; these figures only until Bonsai is closed."),
    ),
    detailsNode(view),
  );
}
