// The Race tab: choosing, watching, the verdict with its replay, and the races that were kept.
import { call, stream } from "./api.js";
import { complain, toast } from "./dialog.js";
import { $, el } from "./dom.js";
import { History, exportNode } from "./race_history.js";
import { Live } from "./race_live.js";
import { resultOf } from "./race_result.js";
import { SetTable } from "./race_set.js";
import { Setup } from "./race_setup.js";
import { on, state } from "./state.js";

const STOP_PATIENCE = 2500; // ms after which a stop does not wait for the server's word

let setup = null;
let history = null;
let running = null; // {id, abort, live, table}
let replay = null;

let said = 0;
function say(text) {
  // A different text each time, or a screen reader stays silent on repetition.
  said += 1;
  $("r-say").textContent = text + (said % 2 ? "" : "\u00a0");
}

// What was in focus may have gone: the keyboard then goes on from here.
function keepFocus() {
  if (onShow() && document.activeElement === document.body) $("r-stage").focus({ preventScroll: true });
}

// ---- a running race

async function stop(now) {
  if (!running) return;
  const { id, abort } = running;
  running.stopping = true;
  if (now) setTimeout(() => abort.abort(), STOP_PATIENCE);
  await call("POST", "race/stop", { race: id, now }).catch(() => abort.abort());
}

async function race(values) {
  if (running) return;
  replay?.pause();
  const live = new Live(stop);
  running = { id: "", abort: new AbortController(), live, table: null, over: false };
  const mine = running;
  setup.running(true);
  $("r-stage").replaceChildren(live.node);
  keepFocus();
  live.node.scrollIntoView({ block: "start" });
  say("The race begins.");
  try {
    await stream("race", values, mine.abort.signal, (frame) => take(mine, frame));
  } catch (problem) {
    if (problem.name !== "AbortError") complain(problem);
  }
  running = null;
  setup.running(false);
  if (!mine.over) live.node.remove();
  history.refresh();
}

function take(mine, frame) {
  if (frame.begin) {
    mine.id = frame.begin.id;
    if (frame.begin.total > 1) {
      mine.table = new SetTable(frame.begin.total, open);
      $("r-stage").append(mine.table.node);
    }
  } else if (frame.ended) {
    mine.table?.add(frame.ended);
  } else if (frame.result) {
    mine.over = true;
    setup.running(false);
    show(frame.result, mine.kept === frame.result.id, true);
  } else if (frame.over) {
    mine.over = true;
    mine.live.node.remove();
    mine.table.over(frame.over);
    setup.running(false);
    keepFocus();
    mine.table.node.scrollIntoView({ block: "start" });
    say("The whole set is done.");
  } else if (frame.broken) {
    const message = `${frame.broken.error} ${frame.broken.remedy}`.trim();
    if (mine.stopping) toast(message);
    else complain({ message });
  } else if (frame.kept) {
    mine.kept = frame.kept;
  } else {
    mine.live.frame(frame);
  }
}

// ---- a finished one

// `kept`: it can be exported. `fresh`: it takes the place of whatever was on show.
function show(view, kept, fresh = false) {
  replay?.pause();
  const made = resultOf(view, kept && exportNode(view.id));
  replay = made.replay;
  made.node.dataset.race = view.id;
  const stage = $("r-stage");
  const table = stage.querySelector(".r-set-table");
  if (table && !fresh) {
    stage.querySelector(".r-result")?.remove();
    table.after(made.node);
  } else {
    stage.replaceChildren(made.node);
  }
  keepFocus();
  made.node.scrollIntoView({ block: "start" });
  say(view.headline.join(""));
  replay.autoplay();
}

async function open(id) {
  if (running) return;
  try {
    show(await call("GET", `races/${id}`), true);
  } catch (problem) {
    complain(problem);
  }
}

function gone(id) {
  const shown = document.querySelector(`.r-result[data-race="${id}"]`);
  if (!shown) return;
  replay.pause();
  shown.remove();
}

// ---- the tab

const onShow = () => Boolean($("b-race")?.offsetParent);

async function begin() {
  const form = $("r-setup");
  looking = true;
  history ??= new History({ open, gone });
  history.refresh();
  try {
    setup = new Setup(form, await call("GET", "race"), race);
  } catch (problem) {
    setup = null;
    form.replaceChildren(
      el("h2", {}, "Race two ways to run the same model"),
      el("p", { class: "r-problem" }, problem.message),
      el("button", { type: "button", class: "b-button", onclick: begin }, "Look again"),
    );
  }
  looking = false;
}

let begun = false;
let looking = false;

// Gradio makes the tab's content when it is first opened, a moment after it is chosen.
async function look() {
  for (let frames = 0; frames < 20 && !onShow(); frames += 1) await new Promise(requestAnimationFrame);
  if (!onShow() || begun) return;
  begun = true;
  await begin();
}

export function start() {
  // An engine that is there now may make possible what was not.
  on("status", () => {
    if (begun && !setup && !looking && onShow() && state.status?.phase === "ready") begin();
  });
  for (const kind of ["click", "keyup"]) {
    document.addEventListener(kind, (event) => event.target.closest?.("#b-tabs > .tab-wrapper") && look());
  }
  document.addEventListener("keydown", (event) => {
    // With nothing in focus, the space bar belongs to the replay on show.
    if (event.key !== " " || ![document.body, $("r-stage")].includes(event.target) || !onShow() || !replay?.node?.isConnected) return;
    event.preventDefault();
    replay.toggle();
  });
}
