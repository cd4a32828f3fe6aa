// What a new chat shows: a few prompts that fit what is running.
import { $, el } from "./dom.js";
import { on, state } from "./state.js";
import { send } from "./chat.js";

// Each calls for another of the practice pair's texts.
const PRACTICE = [
  ["Code", "Implement quicksort in Python."],
  ["Story", "Tell me a story about a lighthouse."],
  ["Thinking", "Think step by step: how long does a box of matches last?"],
  ["Table and maths", "Prove the formula for the sum of squares."],
  ["Long", "Write a long guide."],
  ["Anything else", "Hello! What are you?"],
];
const REAL = [
  ["Code", "Write a Python function that merges overlapping intervals, with tests."],
  ["Explain", "Explain speculative decoding to someone who knows programming but no machine learning."],
  ["Write", "Write a short story about a lighthouse keeper who receives one letter a year."],
  ["Plan", "Plan a three-day walk for two people who like hills and good food."],
];

function draw() {
  const place = $("b-empty");
  const empty = !$("b-log").childElementCount;
  place.hidden = !empty;
  if (!empty) return;
  const practice = Boolean(state.status?.practice);
  if (place.dataset.kind === String(practice)) return;
  place.dataset.kind = String(practice);
  place.replaceChildren(
    el("h2", {}, practice ? "Try the engine" : "What shall we think about?"),
    el("p", { class: "b-muted" }, practice ? "Each of these makes the practice pair answer with one of its texts." : "Everything stays on this machine."),
    el(
      "ul",
      { class: "b-suggestions" },
      ...(practice ? PRACTICE : REAL).map(([kind, text]) =>
        el("li", {}, el("button", { type: "button", class: "b-suggestion", onclick: () => send(text) }, el("b", {}, kind), el("span", {}, text))),
      ),
    ),
  );
}

export function start() {
  on("log", draw);
  on("status", draw);
  draw();
}
