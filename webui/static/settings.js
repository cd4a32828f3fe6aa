// How answers are asked for. The fields are Gradio components; their values live on the server.
import { call } from "./api.js";
import { complain } from "./dialog.js";
import { $, button } from "./dom.js";
import { on, state, tell } from "./state.js";

const QUIET = 350; // ms of no further change after which a field is saved

export async function load() {
  state.settings = await call("GET", "settings");
  window.bonsaiSettingsReady(state.settings);
  tell("settings");
}

export async function change(changes) {
  const before = state.settings;
  // On show at once; back again if the server refuses.
  state.settings = { ...before, ...changes };
  tell("settings");
  if ("tint" in changes) tell("tint");
  try {
    state.settings = await call("PUT", "settings", changes);
  } catch (problem) {
    state.settings = before;
    complain(problem);
    if ("tint" in changes) tell("tint");
  }
  tell("settings");
}

const waiting = new Map();

function edited(event) {
  const field = event.target.closest("[id^='b-set-']");
  if (!field) return;
  const name = field.id.slice("b-set-".length);
  const typed = event.target.value;
  const value = event.target.tagName === "TEXTAREA" ? typed : typed === "" ? null : Number(typed);
  clearTimeout(waiting.get(name));
  waiting.set(name, setTimeout(() => change({ [name]: value }), QUIET));
}

function shown(open) {
  document.body.classList.toggle("b-settings-on", open);
  const node = $("b-settings-open");
  node.setAttribute("aria-expanded", String(open));
  if (open) $("b-settings-close").focus();
  else if ($("b-settings").contains(document.activeElement)) node.focus();
}

export function start() {
  const place = $("b-settings");
  place.setAttribute("role", "region");
  place.setAttribute("aria-labelledby", "b-settings-title");
  const toggle = () => shown(!document.body.classList.contains("b-settings-on"));
  $("b-bar-end").append(
    button("Settings for answers", "sliders", toggle, { id: "b-settings-open", "aria-expanded": "false", "aria-controls": "b-settings" }),
  );
  const close = $("b-settings-close");
  close.append(...button("Close", "close", null).childNodes);
  close.addEventListener("click", () => shown(false));
  place.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      shown(false);
    }
  });
  place.addEventListener("input", edited);
  on("settings-open", () => shown(true));
}
