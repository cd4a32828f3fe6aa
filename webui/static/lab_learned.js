// What was taken over from a lab or a search: shown, explained, undone. The time ledger. On the Lab and on the Machine tab.
import { call } from "./api.js";
import { complain } from "./dialog.js";
import { $, el } from "./dom.js";

export const refreshLearned = () => call("GET", "learned");

// The strip for both tabs; `changed(found)` is told after an undo. Null where nothing was taken over.
export function learnedNode(learned, changed) {
  if (!learned) return null;
  const undo = el("button", { type: "button", class: "b-button" }, learned.stale.length ? "Forget it" : "Undo");
  undo.addEventListener("click", async () => {
    undo.disabled = true;
    try {
      changed(await call("POST", "learned/undo", {}));
    } catch (problem) {
      undo.disabled = false;
      complain(problem);
    }
  });
  const name = learned.plain ? "plain decoding" : learned.name;
  const from = ` – advised for ${learned.purpose}, measured here, taken over on ${learned.since}.`;
  const head = learned.stale.length
    ? [el("b", {}, `${name} is no longer in use. `), learned.stale.join(" "), " Measure again to know what to use now."]
    : learned.overruled
      ? [el("b", {}, `Chosen, but not in use: ${name}`), from, ` ${learned.overruled}`]
      : [el("b", {}, `${learned.runs ? "In use" : "Chosen"}: ${name}`), from, !learned.runs && " It is not what runs just now: the engine is starting, measuring, or was switched."].filter(Boolean);
  return el(
    "div",
    { class: learned.stale.length || learned.overruled ? "l-learned l-stale" : "l-learned", role: "note" },
    el("div", {}, el("p", {}, ...head), learned.why && el("details", { class: "r-more" }, el("summary", {}, "Why"), el("p", { class: "b-muted" }, learned.why))),
    undo,
  );
}

export function drawLearned({ learned }, changed) {
  const place = $("l-learned");
  place?.replaceChildren(...[learnedNode(learned, changed)].filter(Boolean));
}

// For the Machine tab: [title, nodes] of its sections.
export function learnedSections({ learned, ledger }, changed) {
  const found = [];
  if (ledger) {
    found.push([
      "Time saved by speculation",
      [
        el("p", { class: "l-ledger" }, ledger.sentence),
        ledger.rows.length > 0 && el("div", { class: "b-table" }, el("table", {}, el("tbody", {}, ...ledger.rows.map(([what, value]) => el("tr", {}, el("th", { scope: "row" }, what), el("td", {}, value)))))),
      ],
    ]);
  }
  if (learned) found.push(["Learned on this machine", [learnedNode(learned, changed)]]);
  return found;
}
