// The engine's state at the top, pushed by the server; what is wrong and what to do stands above the conversation.
import { $, el } from "./dom.js";
import { on, state, tell } from "./state.js";
import * as trouble from "./trouble.js";

let source = null;
let connected = false; // once before
let closed = false; // the person quit: nobody is there to be asked any more

function connect() {
  if (source || closed || document.hidden) return;
  source = new EventSource("/bonsai/events");
  source.onopen = () => {
    // What changed while this tab was not connected was told to others only.
    if (connected) tell("changed", state.conversation?.id ?? "");
    connected = true;
  };
  source.onmessage = (event) => {
    const news = JSON.parse(event.data);
    if (news.status) {
      state.status = news.status;
      state.lost = false;
      tell("status");
    }
    if (news.fetch) {
      state.fetch = news.fetch;
      tell("fetch");
    }
    if (news.changed) tell("changed", news.changed);
    if (news.gone) tell("gone", news.gone);
  };
  source.onerror = () => {
    state.lost = true;
    tell("status");
    // A browser gives up after a refusal.
    if (source?.readyState === EventSource.CLOSED) {
      source = null;
      setTimeout(again, 2000);
    }
  };
}

// A server that answers but refuses us is another run of Bonsai, with another token: the page begins anew.
// What was typed and which conversation is on show outlive that.
async function again() {
  const ready = await fetch("/bonsai/ready").then((answer) => answer.json(), () => null);
  if (ready?.ready) location.reload();
  else if (ready) setTimeout(again, 1000);
  else connect();
}

// A hidden tab holds no connection: a browser allows six to one server, and running answers need theirs.
function disconnect() {
  source?.close();
  source = null;
}

// Asks for nothing while the server goes; `connectAgain` if it stays after all.
export function leave() {
  closed = state.closed = true;
  disconnect();
  tell("status");
}

export function connectAgain() {
  closed = state.closed = false;
  connect();
  tell("status");
}

const WORDS = { preparing: "Preparing", starting: "Starting", ready: "Ready", stopping: "Stopping", stopped: "Stopped", failed: "Failed" };

function draw() {
  const status = state.status;
  const place = $("b-status");
  const phase = closed ? "stopped" : state.lost ? "lost" : status?.phase ?? "preparing";
  place.dataset.phase = phase;
  const parts = [closed ? "Closed" : state.lost ? "Bonsai does not answer" : WORDS[phase] ?? phase];
  if (!state.lost && !closed && status) {
    if (phase === "ready") {
      if (status.message && status.message !== "Ready.") parts[0] = status.message;
      // What is not as it was asked for comes first: there may be no room for all.
      if (status.inactive) parts.push("speculation requested but not active");
      parts.push(status.model);
      if (status.speculation.on && !status.inactive) parts.push(status.speculation.label);
    } else if (phase !== "failed" && status.message) parts[0] = status.message;
  }
  const text = parts.filter(Boolean).join(" · ");
  if ($("b-status-text").textContent !== text) $("b-status-text").textContent = text;
  place.title = status ? [status.message, status.engine, status.speculation.label, status.busy_with && `busy: ${status.busy_with}`].filter(Boolean).join(" · ") : "";
  banners(status);
}

function banner(kind, text, ...more) {
  return el("div", { class: `b-banner ${kind}`, role: kind === "bad" ? "alert" : "note" }, el("p", {}, text), ...more);
}

function banners(status) {
  const found = [];
  if (closed) {
    found.push(banner("", "Bonsai has been closed. Start it again to go on."));
  } else if (state.lost) {
    found.push(banner("bad", "Bonsai does not answer. It may have been closed; this page connects again by itself."));
  } else if (status?.phase === "failed") {
    found.push(trouble.failure(status));
  } else if (status?.phase === "stopped") {
    found.push(banner("", "The engine is stopped.", trouble.retry("Start")));
  }
  if (status?.practice && !closed) found.push(banner("quiet", status.practice));
  trouble.draw(status, !closed && !state.lost);
  const next = found.map((node) => node.textContent).join("\n");
  const place = $("b-banners");
  // A screen reader must not hear the same banner again with every change of status.
  if (place.dataset.said === next) return;
  place.dataset.said = next;
  place.replaceChildren(...found);
}

export function start() {
  on("status", draw);
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  connect();
}
