// The exported card: the page's own modules stand above, the race in the element "race".
import { el } from "./dom.js";
import { resultOf } from "./race_result.js";

const view = JSON.parse(document.getElementById("race").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const scheme = () => document.documentElement.classList.toggle("b-dark", dark.matches);
dark.addEventListener("change", scheme);
scheme();

const { node, replay } = resultOf(view);
const kind = [view.kind, view.language].filter(Boolean).join(", ");
document.getElementById("card").append(
  el("header", { class: "r-card-head" }, el("h1", {}, `Race: ${view.names[1]} against ${view.names[0]}`), el("p", { class: "b-muted" }, [view.date, kind].filter(Boolean).join(" \u00b7 "))),
  node,
  el("footer", { class: "r-card-foot b-muted" }, "Measured with Bonsai Launcher: same request on both sides, prompt cache off, one engine at work at a time, in the order A B B A; speeds as the engine measured them."),
);
addEventListener("keydown", (event) => {
  if (event.key === " " && event.target === document.body && replay.node) {
    event.preventDefault();
    replay.toggle();
  }
});
node.querySelector(".r-conditions").open = true;
replay.autoplay();
