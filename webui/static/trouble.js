// When the engine does not start as it was asked to: what is tried against it as it happens, what that changed, and what
// a person can do when nothing helped.
import { call } from "./api.js";
import { complain, reading, toast } from "./dialog.js";
import { $, button, copyText, el } from "./dom.js";

const BUSY = ["preparing", "starting", "stopping"];
const AWAY = "bonsai.note.away"; // the note that was put away in this tab

// ---- what a person can do

const act = (label, onclick, kind = "") => el("button", { type: "button", class: `b-button ${kind}`, onclick }, label);

export const retry = (label = "Retry") => act(label, () => call("POST", "engine", {}).catch(complain), "b-primary");

export const reportButton = () => act("Copy report", copyReport);

// The three ways on after a failure.
export const ways = (status) => el("div", { class: "b-acts-row" }, retry(), reportButton(), status.log_path && act("Open log", openLog));

export const copyButton = (label, text) => act(label, () => copyText(text).then(() => toast("Copied"), complain));

async function copyReport() {
  try {
    const { text } = await call("GET", "report");
    // A browser may allow copying only right after a click: then the dialog's own button does it.
    const copied = await copyText(text).then(() => true, () => false);
    const about = `${copied ? "It is copied: paste it" : "Copy it and paste it"} where you ask for help. It tells what this machine is, what was started and how it ended; no passwords, nothing that was asked or answered.`;
    reading("A report for those who help", about, text, copyButton(copied ? "Copy again" : "Copy", text));
  } catch (problem) {
    complain(problem);
  }
}

async function openLog() {
  try {
    const { path, text } = await call("GET", "log");
    const body = reading("The engine's log, its last lines", path, text || "Nothing yet.", copyButton("Copy", text));
    body.scrollTop = body.scrollHeight;
  } catch (problem) {
    complain(problem);
  }
}

// ---- nothing helped

const list = (steps) => el("ol", {}, ...steps.map((text) => el("li", {}, text)));

export function failure(status) {
  return el(
    "div",
    { class: "b-banner bad b-failure", role: "alert" },
    el("p", {}, el("strong", {}, status.error || status.message), status.remedy && ` ${status.remedy}`),
    status.steps.length > 0 && el("details", {}, el("summary", {}, "What was tried"), list(status.steps)),
    ways(status),
  );
}

// ---- as it happens, and what came of it

let shown = ""; // what the region shows now
let steps = null; // its list

// `wanted`: whether anything may be shown at all. Only what is new is added, so that a screen reader hears only that.
export function draw(status, wanted) {
  const place = $("b-trouble");
  const climbing = wanted && BUSY.includes(status?.phase) && status.steps.length > 0;
  const note = wanted && status?.phase === "ready" ? remark(status) : null;
  const next = climbing ? "climbing" : note ? note.text : "";
  if (next !== shown) {
    shown = next;
    steps = null;
    place.replaceChildren(...(climbing ? [ladder()] : note ? [noteNode(note, place)] : []));
  }
  if (climbing) climb(status);
}

function ladder() {
  steps = el("ol", { class: "b-steps" });
  return el("div", { class: "b-banner b-ladder" }, el("p", {}, el("strong", {}, "The engine had a problem. Bonsai tries to solve it by itself:")), steps);
}

function climb(status) {
  const there = [...steps.children].map((node) => node.firstChild.textContent);
  const same = there.every((text, at) => text === status.steps[at]);
  if (!same) steps.replaceChildren(); // the oldest are forgotten after many
  for (const text of status.steps.slice(steps.childElementCount)) steps.append(el("li", {}, el("span", {}, text)));
  for (const node of steps.children) {
    const last = node === steps.lastElementChild;
    node.classList.toggle("b-now", last);
    if (last) node.setAttribute("aria-current", "step");
    else node.removeAttribute("aria-current");
    if (!last) node.querySelector("small")?.remove();
  }
  // Seconds that pass are for eyes only.
  const now = steps.lastElementChild;
  if (status.message === now.firstChild.textContent) return;
  if (!now.querySelector("small")) now.append(el("small", { "aria-hidden": "true" }));
  now.querySelector("small").textContent = status.message;
}

function remark(status) {
  const { warnings } = status;
  const lines = warnings.length ? withOneReason(warnings) : status.steps;
  if (!lines.length) return null;
  let title = "The engine had a problem and works again:";
  if (warnings.length) title = status.steps.length ? "The engine runs, but not quite as asked:" : "The engine runs, but:";
  const text = [title, ...lines].join("\n");
  return sessionStorage.getItem(AWAY) === text ? null : { title, lines, text };
}

// "A: why." and "B: why." are one line with one reason.
function withOneReason(warnings) {
  const found = new Map();
  for (const text of warnings) {
    const at = text.indexOf(": ");
    const why = at < 0 ? text : text.slice(at);
    found.set(why, [...(found.get(why) ?? []), at < 0 ? "" : text.slice(0, at)]);
  }
  return [...found].map(([why, what]) => what.join(". ") + why);
}

function noteNode(note, place) {
  const away = button("Put this note away", "close", () => {
    sessionStorage.setItem(AWAY, note.text);
    shown = "";
    place.replaceChildren();
  });
  const lines = el("ul", {}, ...note.lines.map((text) => el("li", {}, text)));
  return el("div", { class: "b-banner quiet b-remark" }, el("div", {}, el("p", {}, el("strong", {}, note.title)), lines), away);
}
