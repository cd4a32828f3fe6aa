// What to use for one purpose, how sure that is, and the button that does it.
import { call } from "./api.js";
import { complain } from "./dialog.js";
import { el } from "./dom.js";
import { WHOM } from "./lab_known.js";
import { span } from "./lab_table.js";
import { wordNode } from "./race_result.js";

const SURE = {
  true: ["Sure", "l-sure"],
  high: ["Sure", "l-sure"],
  medium: ["Fairly sure", "l-sure l-fairly"],
  low: ["Not sure", "l-sure l-unsure"],
  false: ["Not sure", "l-sure l-unsure"],
};

const wordOf = (spread) => (spread[0] > 1 ? "faster" : spread[1] < 1 ? "slower" : "no difference");

// `ask`: what is sent to use it, null where it cannot be used; `learned(found)` is told what came of that.
export function adviceNode(one, { ask, learned }) {
  const [word, look] = SURE[one.sure];
  const button = el("button", { type: "button", class: "b-button b-primary", hidden: true }, "Use this");
  const state = el("span", { class: "l-in-use", hidden: true }, "✓ taken over");
  button.setAttribute("aria-label", `Use this: ${one.name}, advised for ${one.purpose}`);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      learned(await call("POST", "learned", ask));
    } catch (problem) {
      complain(problem);
    }
    button.disabled = false;
  });
  const draw = (found) => {
    const used = found.learned && !found.learned.stale.length && found.learned.why === one.text && found.learned.purpose === one.purpose;
    button.hidden = Boolean(used) || !found.can;
    state.hidden = !used;
  };
  const listener = (event) => {
    if (node.isConnected) draw(event.detail);
    else document.removeEventListener("bonsai-learned", listener);
  };
  const node = el(
    "section",
    { class: "l-advice", "aria-label": WHOM[one.purpose] },
    el("h3", {}, WHOM[one.purpose]),
    el("p", { class: "l-method" }, one.plain ? "plain decoding" : one.name, !one.plain && one.ratio !== null && wordNode(wordOf(one.spread), `${one.ratio.toFixed(2)}x`)),
    el("p", { class: look }, word, !one.plain && one.spread && ` · ratio ${span(one.spread)}`),
    el("p", {}, one.text),
    one.took && el("p", { class: "b-muted l-small" }, one.took),
    // Without a figure nothing was measured for it: there is no advice to use.
    ask && one.ratio !== null && el("div", { class: "r-buttons" }, button, state),
  );
  // Heard from the next moment on, when the node stands in the page.
  setTimeout(() => document.addEventListener("bonsai-learned", listener));
  return node;
}
