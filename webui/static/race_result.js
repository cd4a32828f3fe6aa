// A race that is over: the verdict in one sentence, what it means, the replay, the figures, the conditions.
import { el } from "./dom.js";
import { positionBars, sidesTable } from "./race_figures.js";
import { Replay } from "./race_replay.js";

const KIND_OF = { faster: "faster", slower: "slower", "no difference": "same" };
const SIGNS = { faster: "\u25b2", slower: "\u25bc", same: "=" };

export function wordNode(word, text = word) {
  const kind = KIND_OF[word] ?? "none";
  return el("span", { class: `r-word r-${kind}` }, SIGNS[kind] && el("span", { class: "r-sign", "aria-hidden": "true" }, SIGNS[kind]), text);
}

export function headlineNode(view) {
  const [before, word, after] = view.headline;
  return el("h2", { class: "r-headline" }, before, wordNode(view.word, word), after);
}

// Both texts around the first place where they differ, with that place marked.
function differenceNode(names, difference) {
  const { a, b, why } = difference;
  if (a === undefined) return el("p", { class: "b-muted" }, why);
  let same = 0;
  while (same < a.length && a[same] === b[same]) same += 1;
  const line = (name, text) =>
    el(
      "div",
      { class: "r-snippet" },
      el("dt", {}, name),
      el("dd", {}, text.slice(0, same), el("mark", {}, text.slice(same) || "(ends here)")),
    );
  return el("div", { class: "r-difference" }, el("dl", {}, line(names[0], a), line(names[1], b)), el("p", { class: "b-muted" }, why));
}

function verdictNode(view, ...actions) {
  const notes = [view.saved, view.texts].filter(Boolean);
  return el(
    "section",
    { class: "r-card r-verdict", "aria-label": "Verdict" },
    view.problem && el("p", { class: "r-problem" }, `The race ended early. ${view.problem}`),
    view.ended === "stopped" && el("p", { class: "r-problem r-stopped" }, "The race was stopped early: what was measured until then stands below."),
    headlineNode(view),
    view.below && el("p", { class: "b-muted" }, view.below),
    notes.length > 0 && el("p", { class: "r-notes" }, notes.join(" ")),
    view.difference && differenceNode(view.names, view.difference),
    view.warnings.length > 0 && el("ul", { class: "r-warnings" }, ...view.warnings.map((text) => el("li", {}, text))),
    view.practice && el("p", { class: "b-muted" }, "Run with the practice pair, which is not a language model: its speeds say nothing about a real one."),
    ...actions,
  );
}

function figuresNode(view) {
  const bars = view.positions.map((shares, side) => shares && positionBars(view.names[side], shares)).filter(Boolean);
  return el(
    "section",
    { class: "r-card", "aria-label": "Figures" },
    el("h2", {}, "Figures"),
    sidesTable(view.names, view.rows),
    bars.length > 0 && el("div", { class: "r-bar-row" }, ...bars),
  );
}

function conditionsNode(view) {
  const kind = [view.kind, view.language].filter(Boolean).join(", ") || "own";
  return el(
    "details",
    { class: "r-card r-conditions" },
    el("summary", {}, "Prompt, machine and command lines"),
    el("h3", {}, `Prompt (${kind})`),
    view.prompt === null ? el("p", { class: "b-muted" }, "Left out, as are the texts.") : el("pre", { class: "r-pre", tabindex: "0" }, view.prompt),
    el("h3", {}, "Conditions"),
    el("dl", { class: "r-about" }, ...view.about.flatMap(([what, value]) => [el("dt", {}, what), el("dd", {}, value)])),
    ...view.commands.flatMap((argv, side) => [el("h3", {}, `Command line of ${view.names[side]}`), el("pre", { class: "r-pre", tabindex: "0" }, argv.join(" "))]),
  );
}

// `actions`: nodes under the verdict. Gives the node and its replay.
export function resultOf(view, ...actions) {
  const replay = new Replay(view);
  const node = el("div", { class: "r-result" }, verdictNode(view, ...actions), replay.node, figuresNode(view), conditionsNode(view));
  return { node, replay };
}
