// Questions and short messages. A native dialog keeps the focus inside and gives it back.
import { el } from "./dom.js";

function open(content, onClose) {
  const dialog = el("dialog", { class: "b-dialog" });
  dialog.append(content);
  dialog.addEventListener("close", () => {
    onClose(dialog.returnValue);
    dialog.remove();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close("");
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

function form(title, text, field, action, danger) {
  const heading = el("h2", { id: "b-dialog-title" }, title);
  return el(
    "form",
    { method: "dialog", "aria-labelledby": "b-dialog-title" },
    heading,
    text && el("p", {}, text),
    field,
    el(
      "div",
      { class: "b-dialog-end" },
      el("button", { class: "b-button", value: "", formnovalidate: true }, "Cancel"),
      el("button", { class: danger ? "b-button b-danger" : "b-button b-primary", value: "yes" }, action),
    ),
  );
}

export function confirmed(title, text, action, danger = false) {
  return new Promise((go) => {
    open(form(title, text, null, action, danger), (value) => go(value === "yes"));
  });
}

export function asked(title, value, action) {
  return new Promise((go) => {
    const field = el("input", { class: "b-field", "aria-labelledby": "b-dialog-title", maxlength: "200" });
    field.value = value;
    const content = form(title, null, field, action, false);
    // Enter in the field means the action, not the first button of the form.
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.isComposing) {
        event.preventDefault();
        content.querySelector("[value=yes]").click();
      }
    });
    open(content, (answer) => go(answer === "yes" ? field.value.trim() : null));
    field.select();
  });
}

// Something long to read, with what can be done with it; returns where the text stands.
export function reading(title, about, text, ...buttons) {
  const body = el("pre", { class: "b-log-text", tabindex: "0", "aria-label": title }, text);
  const dialog = open(
    el(
      "form",
      { method: "dialog", class: "b-reading", "aria-labelledby": "b-dialog-title" },
      el("h2", { id: "b-dialog-title" }, title),
      about && el("p", {}, about),
      body,
      el("div", { class: "b-dialog-end" }, ...buttons, el("button", { class: "b-button b-primary" }, "Close")),
    ),
    () => {},
  );
  dialog.classList.add("b-wide-dialog");
  return body;
}

let place = null;
export function toast(text, kind = "") {
  if (!place) {
    place = el("div", { class: "b-toasts", role: "status", "aria-live": "polite" });
    document.body.append(place);
  }
  const note = el("div", { class: `b-toast ${kind}` }, text);
  place.append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 9000 : 3500);
}

export const complain = (problem) => toast(problem.message || String(problem), "bad");
