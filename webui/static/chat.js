// The conversation on show: loading, sending, stopping, and everything done to its messages.
import { call, stream } from "./api.js";
import { complain, confirmed } from "./dialog.js";
import { $, announce, copyText, el } from "./dom.js";
import { RunningAnswer } from "./running.js";
import { follow, jump, stick } from "./scroll.js";
import { currentRun, on, state, tell } from "./state.js";
import { promptNode, turnNode } from "./turns.js";

const KEY = "bonsai.current";
const STOP_PATIENCE = 1500; // ms after which a stop does not wait for the server's word

const acts = {
  isLast: (turn) => state.conversation?.turns.at(-1)?.id === turn.id || isLastPrompt(turn),
  resend: (turn, text) => run({ action: "edit", turn: turn.id, text }),
  again: (turn) => run({ action: "again", turn: promptOf(turn) }),
  proceed: () => send("Please go on exactly where you stopped."),
  fresh: () => open(null),
  settings: () => tell("settings-open"),
  leaveOut: (turn) => {
    state.leaveOut.add(state.conversation.id);
    // What there is of an answer stays, and is gone on with.
    if (turn.content) acts.proceed();
    else acts.again(turn);
  },
  rewrite: (turn, text) => change("PATCH", `/turns/${turn.id}`, { text }),
  remove: async (turn) => {
    const what = turn.role === "user" ? "Delete this message and its answer?" : "Delete this answer?";
    if (await confirmed(what, "This cannot be undone.", "Delete", true)) await change("DELETE", `/turns/${turn.id}`);
  },
};

function isLastPrompt(turn) {
  const turns = state.conversation?.turns ?? [];
  return turn.role === "user" && turns.at(-2)?.id === turn.id && turns.at(-1).role === "assistant";
}

function promptOf(turn) {
  const turns = state.conversation.turns;
  for (let at = turns.findIndex((it) => it.id === turn.id); at >= 0; at -= 1) {
    if (turns[at].role === "user") return turns[at].id;
  }
  return "";
}

async function change(method, rest, body) {
  try {
    const made = await call(method, `conversations/${state.conversation.id}${rest}`, body);
    if (state.conversation?.id === made.id) show(made, true);
  } catch (problem) {
    complain(problem);
  }
}

// ---- showing

let asked = 0;

export async function open(id) {
  asked += 1;
  const mine = asked;
  if (id === null) {
    show(null);
    $("b-prompt").focus();
    return;
  }
  const found = await call("GET", `conversations/${id}`);
  // Only the one asked for last is shown, whichever comes first.
  if (mine === asked) show(found);
}

function show(conversation, keepPlace = false) {
  state.conversation = conversation;
  const id = conversation?.id ?? "";
  localStorage.setItem(KEY, id);
  history.replaceState(null, "", id ? `#${id}` : location.pathname);
  draw(keepPlace);
  tell("conversation");
}

function draw(keepPlace = false) {
  const run = currentRun();
  const turns = state.conversation?.turns ?? [];
  const nodes = turns.map((turn) => turnNode(turn, acts));
  if (run) {
    run.place(nodes, turns);
  } else if (turns.at(-1)?.role === "user") {
    nodes.push(unanswered(turns.at(-1)));
  }
  $("b-log").replaceChildren(...nodes);
  tell("log");
  if (keepPlace) follow();
  else jump();
}

function unanswered(turn) {
  return el(
    "div",
    { class: "b-offers" },
    el("span", { class: "b-muted" }, "No answer yet."),
    el("button", { type: "button", class: "b-button b-primary", onclick: () => acts.again(turn) }, "Answer"),
  );
}

export function restore() {
  const id = location.hash.slice(1) || localStorage.getItem(KEY);
  // A conversation that is gone is no error: the page then begins with a new one.
  return open(id || null).catch(() => show(null));
}

// ---- answers

export function send(text) {
  return run({ action: "send", text });
}

export async function stop() {
  const current = currentRun();
  if (!current) return;
  current.stopping = true;
  tell("runs");
  // The server ends the engine's work at once and sends what came; if it does not, leaving does the same.
  setTimeout(() => current.abort.abort(), STOP_PATIENCE);
  if (!current.answer) {
    current.abort.abort();
    return;
  }
  await call("POST", "stop", { answer: current.answer }).catch(() => current.abort.abort());
}

class Run {
  constructor(body) {
    this.conversation = state.conversation?.id ?? null;
    this.abort = new AbortController();
    this.view = new RunningAnswer();
    this.view.onDraw = follow;
    this.body = body;
    this.answer = "";
    this.prompt = body.action === "again" ? body.turn : "";
    this.stopping = false;
    this.gone = false;
  }

  // Puts the running answer where it belongs among the finished messages.
  place(nodes, turns) {
    const at = turns.findIndex((turn) => turn.id === this.prompt);
    if (at < 0) {
      nodes.push(this.view.node);
    } else {
      const old = turns[at + 1]?.role === "assistant" ? 1 : 0;
      nodes.splice(at + 1, old, this.view.node);
    }
  }
}

async function run(body) {
  if (currentRun()) return;
  const made = new Run(body);
  state.runs.add(made);
  if (body.action === "send") {
    // The message is on show at once, before the server has it.
    $("b-log").append(promptNode({ id: "", content: body.text }, acts), made.view.node);
    tell("log");
  } else {
    draw(true);
  }
  stick();
  tell("runs");
  announce("Sent. The answer begins soon.");
  const id = state.conversation?.id;
  try {
    const asking = { ...body, conversation: id ?? null, leave_out_oldest: state.leaveOut.has(id) };
    await stream("chat", asking, made.abort.signal, (frame) => take(made, frame));
  } catch (problem) {
    if (problem.name !== "AbortError") complain(problem);
    // Nobody knows whether the message arrived: it is not lost either way.
    if (!made.prompt && body.text && !$("b-prompt").value) {
      $("b-prompt").value = body.text;
      tell("prompt");
    }
  }
  made.view.end();
  state.runs.delete(made);
  if (made.gone) gone(made.conversation);
  else if (!made.finished) await reload(made);
  tell("runs");
}

function take(made, frame) {
  if (frame.begin) {
    begun(made, frame);
  } else if (frame.done) {
    finished(made, frame.done);
  } else if (frame.broken) {
    complain({ message: `${frame.broken.error} ${frame.broken.remedy}`.trim() });
  } else {
    made.view.frame(frame);
  }
}

function begun(made, frame) {
  const here = currentRun() === made;
  made.conversation = frame.begin.id;
  made.answer = frame.answer;
  made.prompt = frame.prompt.id;
  if (made.stopping) call("POST", "stop", { answer: made.answer }).catch(() => made.abort.abort());
  if (!here) return;
  const known = state.conversation ?? { id: frame.begin.id, turns: [] };
  let turns = known.turns;
  if (made.body.action === "edit") turns = turns.slice(0, turns.findIndex((it) => it.id === made.body.turn));
  if (made.body.action !== "again") turns = [...turns, frame.prompt];
  state.conversation = { ...known, title: frame.begin.title, turns };
  localStorage.setItem(KEY, frame.begin.id);
  history.replaceState(null, "", `#${frame.begin.id}`);
  draw(true);
  tell("conversation");
}

function finished(made, turn) {
  made.finished = true;
  made.view.end();
  if (state.conversation?.id !== made.conversation) return;
  const turns = [...state.conversation.turns];
  const at = turns.findIndex((it) => it.id === made.prompt);
  const next = turns[at + 1];
  const replaces = next?.role === "assistant";
  // An answer that brought nothing does not push out one that has text (the server keeps it as well).
  const empty = !turn.content && !turn.thinking && replaces && next.content;
  if (empty) complain({ message: turn.note });
  else turns.splice(at + 1, replaces ? 1 : 0, turn);
  state.conversation = { ...state.conversation, turns };
  const node = turnNode(empty ? next : turn, acts);
  // What is on show already and would look the same stays, with whatever is selected in it.
  const body = made.view.body;
  const text = node.querySelector(":scope > .b-md");
  if (body.mode === "html" && body.html === turn.html && text) text.replaceWith(body.node);
  const open = made.view.think.open;
  made.view.node.replaceWith(node);
  if (open) node.querySelector(".b-thinking")?.setAttribute("open", "");
  follow();
  const figures = turn.figures.map((figure) => figure.text).join(", ");
  announce(`${turn.note ? `${turn.note} ` : "The answer is complete. "}${figures}`);
}

// A stream that ended without its last word: the server has kept what came.
async function reload(made) {
  if (!made.conversation || state.conversation?.id !== made.conversation) {
    if (!made.conversation) draw();
    return;
  }
  await new Promise((go) => setTimeout(go, 250));
  const kept = await call("GET", `conversations/${made.conversation}`).catch(() => null);
  if (kept && state.conversation?.id === kept.id) show(kept, true);
}

// ---- wiring

export function start() {
  $("b-log").addEventListener("click", async (event) => {
    const copy = event.target.closest(".b-copy-code");
    if (!copy) return;
    await copyText(copy.closest(".b-code").querySelector("code").textContent).then(
      () => { copy.textContent = "Copied"; },
      complain,
    );
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });
  on("tint", () => {
    for (const run of state.runs) run.view.show();
    draw(true);
  });
  window.addEventListener("hashchange", () => {
    const id = location.hash.slice(1);
    if (id !== (state.conversation?.id ?? "")) open(id || null).catch(complain);
  });
  on("gone", gone);
  on("changed", async (id) => {
    // Another tab changed what this one shows; while an answer runs here, its end brings the news.
    if (id === state.conversation?.id && !currentRun()) {
      const kept = await call("GET", `conversations/${id}`).catch(() => null);
      if (kept && state.conversation?.id === id && !currentRun() && differs(kept)) show(kept, true);
    }
  });
}

function gone(id) {
  if (id !== state.conversation?.id) return;
  const current = currentRun();
  if (current) current.gone = true; // the server ends the answer first
  else show(null);
}

function differs(kept) {
  const plain = (it) => JSON.stringify([it.title, it.turns.map((turn) => [turn.id, turn.content, turn.ended])]);
  return plain(kept) !== plain(state.conversation);
}
