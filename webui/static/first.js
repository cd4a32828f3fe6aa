// Getting a model: the card in an empty chat and on the Machine tab, and a line at the top while it is on its way.
// How it stands is pushed with the other news; only what could be fetched is asked for.
import { call } from "./api.js";
import { complain, confirmed } from "./dialog.js";
import { $, el, icon } from "./dom.js";
import { Card } from "./first_card.js";
import { Models, nowText } from "./first_models.js";
import { checkingText, joined, left, percent, rate, size } from "./first_text.js";
import { on, state, tell } from "./state.js";

const LATER = "bonsai.fetch.later"; // the title that the person put off
const AGAIN_MS = 1000; // until the machine is asked for again, while it is still being looked at
const BUSY = ["looking", "checking", "running", "paused", "failed"];

const cards = new Map(); // place -> Card
let found = null; // {offer, problem, machine, looking} as the server gave it
let title = ""; // of the offer seen last: when all is here, there is none any more
let waiting = false; // a button's request is on its way
let said = { phase: "", step: 0 };
let strip = null;
let timer = 0;
let list = null; // of the Machine tab
let choices = 0; // of another model, as far as this tab has heard

// ---- what there is to show

const phase = () => state.fetch?.phase ?? "idle";

// The fetched model answers: nothing is left to do here.
const inUse = () => state.status?.phase === "ready" && !state.status.practice;

function modeFor(chat) {
  const now = phase();
  if (state.closed || !state.fetch) return "";
  const slim = chat && put();
  if (now === "done") return inUse() ? "" : slim ? "slim" : "done";
  if (now === "failed" && slim) return "slim";
  if (BUSY.includes(now)) return now;
  if (!found) return "";
  if (found.problem) return chat ? "" : "problem";
  if (!found.offer) return "";
  return slim ? "slim" : "offer";
}

// "Not now" was said to this model.
const put = () => localStorage.getItem(LATER) === title;

// The engine switches over.
const starting = () => phase() === "done" && ["preparing", "starting", "stopping"].includes(state.status?.phase);

function draw() {
  const chat = $("f-chat");
  const empty = !$("b-log").childElementCount;
  place(chat, true, empty);
  place($("f-machine"), false, true);
  placeModels($("f-models"));
  drawStrip();
  // While the machine is looked at, whoever sees the card waits for it.
  clearTimeout(timer);
  if (found?.looking && !document.hidden && [...cards.keys()].some((it) => it.offsetParent)) timer = setTimeout(look, AGAIN_MS);
}

function place(host, chat, wanted) {
  if (!host) return;
  const mode = wanted ? modeFor(chat) : "";
  host.hidden = !mode;
  if (!mode) return;
  if (!cards.has(host)) {
    cards.set(host, new Card((name) => act(name, host), chat, chat ? new Models((row) => chose(row, host)) : null));
    host.append(...(chat ? [] : [el("h2", { class: "f-section" }, "Models and engines")]), cards.get(host).node);
  }
  const offer = found?.offer ?? (title ? { title, why: [], items: [], left_out: [] } : null);
  const now = state.fetch;
  const practice = Boolean(state.status?.practice);
  const running = state.status?.phase === "ready" ? state.status.model : "";
  cards.get(host).draw({ mode, now, offer, practice, running, problem: found?.problem, machine: found?.machine ?? [], starting: starting(), waiting });
}

// On the Machine tab the list is there also when nothing is lacking.
function placeModels(host) {
  if (!host) return;
  host.hidden = !state.fetch || state.closed;
  if (host.hidden || list) return;
  const text = el("p", {});
  list = new Models((row) => chose(row, $("f-machine")));
  list.onLook = (it) => (text.textContent = nowText(it));
  host.append(el("section", { class: "b-card" }, el("h2", {}, "Model"), text, el("details", { class: "f-others" }, el("summary", {}, "Another model"), list.node)));
}

const lists = () => [list, ...[...cards.values()].map((it) => it.models)].filter((it) => it?.found);

// Another model is asked for: the card speaks of it, or there is none because it is here.
async function chose(row, host) {
  localStorage.removeItem(LATER);
  await look();
  say(`${row.label} is chosen from now on.`);
  cards.get(host)?.shut("models");
  draw();
  if (!host.hidden) cards.get(host).title.focus({ preventScroll: true });
  if (!host.hidden) host.scrollIntoView({ block: "start" });
}

// ---- asking

let asked = 0;

async function look() {
  asked += 1;
  const mine = asked;
  try {
    const answer = await call("GET", "fetch");
    if (mine !== asked) return;
    found = answer;
    title = answer.offer?.title ?? title;
  } catch (problem) {
    if (!state.lost && !state.closed) complain(problem);
  }
  draw();
}

async function act(name, host) {
  if (name === "show" || name === "later") {
    if (name === "later") localStorage.setItem(LATER, title);
    else localStorage.removeItem(LATER);
    draw();
    return;
  }
  if (name === "look") {
    await look();
    return;
  }
  // What was read counts for nothing before its end, and is quickly read again.
  if (name === "cancel" && phase() !== "checking") {
    const sure = await confirmed("Cancel fetching?", "What came so far is kept: fetching can go on from there at any time.", "Cancel fetching");
    if (!sure) return;
  }
  if (name !== "use") localStorage.removeItem(LATER);
  waiting = true;
  draw();
  try {
    await call("POST", `fetch/${name}`, {});
  } catch (problem) {
    complain(problem);
  }
  waiting = false;
  draw();
  // A button that was disabled for a moment has lost the focus.
  if (document.activeElement === document.body) cards.get(host).title?.focus({ preventScroll: true });
}

// ---- the line at the top

function drawStrip() {
  const now = state.fetch;
  const busy = !state.closed && !state.lost && (phase() === "done" || BUSY.includes(phase())) && modeFor(true) !== "" && modeFor(true) !== "slim";
  document.documentElement.classList.toggle("f-on", busy);
  strip.hidden = !busy;
  if (!busy) return;
  const done = percent(now.have, now.total);
  const what = title || "the model";
  const words = {
    looking: () => `Getting ${what}`,
    checking: () => checkingText(now),
    running: () => joined(`Getting ${what}`, done !== null && `${done} %`, rate(now.rate), left(now.left_s)),
    paused: () => joined(`${what} is paused`, done !== null && `${done} %`),
    failed: () => `${what} is not complete: ${now.error}`,
    done: () => (starting() ? `${what} is being started` : `${what} is ready to use`),
  };
  const text = words[phase()]();
  const label = strip.querySelector(".f-strip-text");
  if (label.textContent !== text) label.textContent = text;
  strip.title = text;
  if (strip.dataset.phase !== phase()) {
    strip.dataset.phase = phase();
    strip.querySelector(".b-i").replaceWith(icon({ done: "check", failed: "warn" }[phase()] ?? "import"));
  }
  strip.querySelector("i").style.transform = `scaleX(${phase() === "done" ? 1 : now.total ? Math.min(1, now.have / now.total) : 0})`;
}

// Where the card is: in the chat if that is empty and on show, else on the Machine tab.
async function goToCard() {
  let host = $("f-chat");
  if (!host.offsetParent) {
    $("b-tab-machine-button").click();
    for (let frames = 0; frames < 120 && !$("f-machine")?.offsetParent; frames += 1) await new Promise(requestAnimationFrame);
    host = $("f-machine");
  }
  if (!host?.offsetParent) return;
  if (cards.get(host).node.classList.contains("f-slim")) act("show", host);
  cards.get(host).title.focus({ preventScroll: true });
  host.scrollIntoView({ block: "start" });
}

// ---- said aloud, politely and seldom

function say(text) {
  $("f-say").textContent = text;
}

function announce() {
  const now = state.fetch;
  const step = Math.floor((percent(now.have, now.total) ?? 0) / 10);
  if (now.phase !== said.phase) {
    const first = said.phase === "";
    const words = {
      checking: `Checking what is here already, ${size(now.total)} in all.`,
      running: `Fetching, ${size(now.total)} in all.`,
      paused: "Fetching is paused.",
      cancelled: "Fetching was cancelled; what came so far is kept.",
      done: "Everything is fetched and checked.",
    };
    // What was so before this page opened is no news; a failure is read out as an alert.
    if (!first && words[now.phase]) say(words[now.phase]);
    said = { phase: now.phase, step };
  } else if (["checking", "running"].includes(now.phase) && step > said.step) {
    said.step = step;
    say(joined(`${step * 10} percent ${now.phase === "checking" ? "checked" : "fetched"}`, left(now.left_s)).replace(" · ", ", "));
  }
}

// ---- news

let model = "";

function news() {
  const before = said.phase;
  announce();
  const other = choices !== state.fetch.choices;
  choices = state.fetch.choices;
  if (!found || before !== phase() || other) look();
  // Somebody else may have chosen; and what came is here.
  if (before !== phase() || other) lists().forEach((it) => it.look());
  if (other) tell("choice");
  draw();
}

function engine() {
  const running = state.status?.phase === "ready" ? state.status.model : model;
  const other = state.fetch && running !== model;
  model = running;
  if (other && found) look();
  if (other) lists().forEach((it) => it.draw());
  draw();
}

export function start() {
  strip = el("button", { type: "button", class: "f-strip", hidden: true, onclick: goToCard }, el("i", { "aria-hidden": "true" }), icon("import"), el("span", { class: "f-strip-text" }), el("span", { class: "f-strip-show" }, "Show"));
  document.querySelector(".b-top").append(strip, el("div", { class: "b-hidden", id: "f-say", role: "status", "aria-live": "polite" }));
  on("fetch", news);
  on("status", engine);
  on("log", draw);
  on("machine", () => {
    draw();
    list?.look();
  });
  document.addEventListener("visibilitychange", () => !document.hidden && found?.looking && look());
}
