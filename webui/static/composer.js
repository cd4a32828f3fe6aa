// The message box and the switches beside it.
import { call } from "./api.js";
import { confirmed, complain } from "./dialog.js";
import { $, el, icon } from "./dom.js";
import { currentRun, on, state } from "./state.js";
import { change } from "./settings.js";
import { send, stop } from "./chat.js";

let box = null;

const DRAFT = "bonsai.draft";

function fit() {
  sessionStorage.setItem(DRAFT, box.value);
  box.style.height = "auto";
  box.style.height = `${Math.min(box.scrollHeight, 260)}px`;
}

function submit() {
  const text = box.value.trim();
  if (currentRun() || !text) return;
  const whole = box.value.replace(/\s+$/, "");
  box.value = "";
  fit();
  drawSend();
  send(whole);
}

function drawSend() {
  const run = currentRun();
  const node = $("b-send");
  const label = run ? (run.stopping ? "Stopping" : "Stop") : "Send";
  if (node.dataset.label !== label) {
    node.dataset.label = label;
    node.setAttribute("aria-label", label);
    node.title = run ? "Stop (Esc)" : "Send (Enter)";
    node.replaceChildren(icon(run ? "stop" : "up"));
    node.classList.toggle("b-stop", Boolean(run));
  }
  node.disabled = run ? run.stopping : !box.value.trim();
}

// ---- switches

function chip(id, name, label, title, onclick) {
  return el("button", { type: "button", class: "b-chip", id, title, "aria-pressed": "false", onclick }, icon(name), el("span", {}, label));
}

function press(id, on) {
  $(id).setAttribute("aria-pressed", String(Boolean(on)));
}

function drawChips() {
  press("b-think", state.settings.thinking);
  press("b-tint", state.settings.tint);
  const spec = state.status?.speculation;
  const node = $("b-spec");
  press("b-spec", spec?.on);
  node.disabled = !spec?.possible || ["starting", "stopping", "preparing"].includes(state.status?.phase);
  // A switch that cannot be used says so to everybody, not only to those who point at it.
  const why = $("b-spec-why");
  const reason = spec?.possible ? "" : spec?.reason ?? "";
  why.hidden = !reason;
  if (why.textContent !== reason) why.textContent = reason;
  if (reason) node.setAttribute("aria-describedby", "b-spec-why");
  else node.removeAttribute("aria-describedby");
  node.title = spec ? (spec.possible ? `${spec.why} ${spec.costs}` : `No speculation: ${spec.why}`) : "";
  node.lastChild.replaceChildren("Speculation", el("span", { class: "b-wide" }, spec?.on && spec.label ? ` ${spec.label}` : ""));
}

async function switchSpeculation() {
  const spec = state.status.speculation;
  const title = spec.on ? "Switch speculation off?" : "Switch speculation on?";
  const off = "The engine restarts without the drafter: every token then comes from the target alone.";
  if (!(await confirmed(title, spec.on ? off : spec.costs, spec.on ? "Switch off" : "Switch on"))) return;
  await call("POST", "engine", { speculative: !spec.on }).catch(complain);
}

export function start() {
  box = $("b-prompt");
  $("b-chips").append(
    chip("b-think", "bulb", "Think", "Let the model think before it answers", () => change({ thinking: !state.settings.thinking })),
    chip("b-spec", "bolt", "Speculation", "", switchSpeculation),
    chip("b-tint", "tint", "Tint", "Mark the tokens that came from the drafter", () => change({ tint: !state.settings.tint })),
  );
  box.addEventListener("input", () => { fit(); drawSend(); });
  box.addEventListener("keydown", (event) => {
    // While an input method composes a character, Enter belongs to it.
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) {
      event.preventDefault();
      submit();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (currentRun()) stop();
  });
  $("b-composer").addEventListener("submit", (event) => {
    event.preventDefault();
    if (currentRun()) stop();
    else submit();
  });
  $("b-composer").addEventListener("click", (event) => {
    if (event.target === event.currentTarget) box.focus();
  });
  on("runs", drawSend);
  on("conversation", drawSend);
  on("prompt", () => { fit(); drawSend(); });
  on("settings", drawChips);
  on("status", drawChips);
  box.value = sessionStorage.getItem(DRAFT) ?? "";
  fit();
  drawSend();
  drawChips();
}
