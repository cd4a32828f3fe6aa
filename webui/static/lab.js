// The Lab tab: finding what is best here; choosing, watching, the tables, plots and advice; and the labs that were kept.
import { call, stream } from "./api.js";
import { complain, toast } from "./dialog.js";
import { $, el } from "./dom.js";
import { Finder } from "./lab_find.js";
import { SearchLive } from "./lab_find_live.js";
import { foundOf } from "./lab_found.js";
import { History } from "./lab_history.js";
import { drawLearned, refreshLearned } from "./lab_learned.js";
import { Live } from "./lab_live.js";
import { resultOf } from "./lab_result.js";
import { Setup } from "./lab_setup.js";
import { on, state } from "./state.js";

const STOP_PATIENCE = 2500; // ms after which a stop does not wait for the server's word

let setup = null;
let finder = null;
let history = null;
let running = null; // {abort, live, asked, stopping, over, search}

let said = 0;
function say(text) {
  // A different text each time, or a screen reader stays silent on repetition.
  said += 1;
  $("l-say").textContent = text + (said % 2 ? "" : "\u00a0");
}

// What was in focus may have gone: the keyboard then goes on from here.
function keepFocus() {
  if (onShow() && document.activeElement === document.body) $("l-stage").focus({ preventScroll: true });
}

// ---- a running lab

async function stop(now) {
  if (!running) return;
  const { abort } = running;
  running.stopping = true;
  if (now) setTimeout(() => abort.abort(), STOP_PATIENCE);
  await call("POST", "lab/stop", { now }).catch(() => abort.abort());
}

// Starts one by `ask` (a promise), or with none only looks at what runs.
async function run(ask) {
  if (running) return;
  running = { abort: new AbortController(), live: null, asked: Boolean(ask), stopping: false, over: false };
  const mine = running;
  busy(true);
  try {
    await ask?.();
    await stream("lab/watch", {}, mine.abort.signal, (frame) => take(mine, frame));
  } catch (problem) {
    if (problem.name !== "AbortError") complain(problem);
  }
  running = null;
  mine.live?.close();
  busy(false);
  if (!mine.over) mine.live?.node.remove();
  history.refresh();
  await refresh(mine);
}

function busy(now) {
  setup?.running(now);
  finder?.running(now);
}

// The pace of this machine may be new. A search whose end did not come through may have found something.
async function refresh({ over, search }) {
  try {
    const found = await call("GET", "lab");
    setup?.update(found);
    finder?.update(found);
    if (!over && !running && search && found.found?.id === search) showFound(found.found);
  } catch {
    // It says so when something is asked for.
  }
}

function take(mine, frame) {
  if (!mine.live) {
    mine.search = frame.search?.id;
    mine.live = mine.search ? new SearchLive(stop) : new Live(stop);
    $("l-stage").replaceChildren(mine.live.node);
    keepFocus();
    if (mine.asked) {
      mine.live.node.scrollIntoView({ block: "start" });
      say(mine.search ? "The search begins." : "The lab begins.");
    }
  }
  if (frame.over) {
    mine.over = true;
    show(frame.over, frame.kept);
  } else if (frame.found) {
    mine.over = true;
    showFound(frame.found);
  } else if (frame.broken) {
    const message = `${frame.broken.error} ${frame.broken.remedy}`.trim();
    if (mine.stopping) {
      toast(message);
      return;
    }
    complain({ message });
    mine.over = true;
    $("l-stage").replaceChildren(el("section", { class: "r-card", "aria-label": "Problem" }, el("p", { class: "r-problem" }, message)));
  } else {
    mine.live.frame(frame);
    if (frame.part?.text) say(frame.part.text);
  }
}

const begin = (values) => run(() => call("POST", "lab", values));

const resume = (id) => run(() => call("POST", "lab/resume", { lab: id }));

const find = (language) => run(() => call("POST", "lab/find", { language }));

// ---- a finished one

// `kept`: it can be exported and gone on with.
function show(view, kept) {
  const node = resultOf(view, { kept, resume, learned: took });
  node.dataset.lab = view.id;
  $("l-stage").replaceChildren(node);
  keepFocus();
  node.scrollIntoView({ block: "start" });
  say(["The lab is over.", ...view.advice.map((one) => one.text)].join(" "));
  refreshLearned().then(took, complain);
}

// What a search found; `quiet`: only shown, for somebody who has not asked for it.
function showFound(view, { quiet = false } = {}) {
  const node = foundOf(view, took);
  $("l-stage").replaceChildren(node);
  if (quiet) return;
  keepFocus();
  node.scrollIntoView({ block: "start" });
  say(["The search is over.", ...view.advice.map((one) => one.text)].join(" "));
  refreshLearned().then(took, complain);
}

// Something else is in use now: the strip at the top, and the buttons of the advice.
function took(found) {
  drawLearned(found, took);
  document.dispatchEvent(new CustomEvent("bonsai-learned", { detail: found }));
}

async function open(id) {
  if (running) return;
  try {
    show(await call("GET", `labs/${id}`), true);
  } catch (problem) {
    complain(problem);
  }
}

const gone = (id) => document.querySelector(`.l-result[data-lab="${id}"]`)?.remove();

// ---- the tab

const onShow = () => Boolean($("b-lab")?.offsetParent);

let looking = false;

async function look() {
  const form = $("l-setup");
  looking = true;
  history ??= new History({ open, gone, resume });
  try {
    const found = await call("GET", "lab");
    setup = new Setup(form, found, begin);
    finder = new Finder($("l-find"), found, find, showFound);
    $("l-find").hidden = false;
    if (found.running) run(null);
    else if (found.found) showFound(found.found, { quiet: true });
  } catch (problem) {
    setup = finder = null;
    $("l-find").hidden = true;
    form.replaceChildren(
      el("h2", {}, "Measure what to run on this machine"),
      el("p", { class: "r-problem" }, problem.message),
      el("button", { type: "button", class: "b-button", onclick: look }, "Look again"),
    );
  }
  history.refresh();
  refreshLearned().then(took, complain);
  looking = false;
}

let begun = false;

// Gradio makes the tab's content when it is first opened, a moment after it is chosen.
async function opened() {
  for (let frames = 0; frames < 20 && !onShow(); frames += 1) await new Promise(requestAnimationFrame);
  if (!onShow()) return;
  if (begun) {
    // Another tab may have begun a lab, and another engine may be in use.
    if (!running && !looking) refreshLearned().then(took, complain);
    return;
  }
  begun = true;
  await look();
}

// What runs, in one word: the strip says whether it is what was taken over.
let ran = "";
const runs = () => `${state.status?.phase} ${state.status?.speculation.label}`;

export function start() {
  // An engine that is there now may make possible what was not.
  on("status", () => {
    if (begun && !setup && !looking && onShow() && state.status?.phase === "ready") look();
    else if (begun && !running && !looking && onShow() && runs() !== ran) refreshLearned().then(took, complain);
    ran = runs();
  });
  for (const kind of ["click", "keyup"]) {
    document.addEventListener(kind, (event) => event.target.closest?.("#b-tabs > .tab-wrapper") && opened());
  }
}
