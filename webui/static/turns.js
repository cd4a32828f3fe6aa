// Finished messages: their text as the server drew it, the line of figures, and what one can do with them.
import { button, copyText, el, seconds } from "./dom.js";
import { complain, toast } from "./dialog.js";
import { state } from "./state.js";
import { tinted } from "./tint.js";

function copyButton(text) {
  return button("Copy", "copy", async () => {
    try {
      await copyText(text);
      toast("Copied");
    } catch (problem) {
      complain(problem);
    }
  });
}

// In place of the text, an editor. `hint` says what saving does.
function editor(turn, action, hint, save, cancel) {
  const area = el("textarea", { class: "b-field b-edit", "aria-label": "Text of the message" });
  area.value = turn.content;
  const fit = () => {
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight + 2, 480)}px`;
  };
  area.addEventListener("input", fit);
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      cancel();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save(area.value);
  });
  const box = el(
    "div",
    { class: "b-editor" },
    area,
    el(
      "div",
      { class: "b-editor-end" },
      el("span", { class: "b-muted" }, hint),
      el("button", { type: "button", class: "b-button", onclick: cancel }, "Cancel"),
      el("button", { type: "button", class: "b-button b-primary", onclick: () => save(area.value) }, action),
    ),
  );
  requestAnimationFrame(() => {
    fit();
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
  });
  return box;
}

function edited(node, turn, action, hint, save) {
  const before = [...node.childNodes];
  const back = () => {
    node.classList.remove("b-editing");
    node.replaceChildren(...before);
    node.querySelector("[data-do=edit]")?.focus();
  };
  node.classList.add("b-editing");
  node.replaceChildren(editor(turn, action, hint, (text) => text.trim() && save(text), back));
}

export function promptNode(turn, acts) {
  const node = el(
    "article",
    { class: "b-turn b-prompt", "aria-label": "You", data: { turn: turn.id } },
    el("div", { class: "b-bubble" }, turn.content),
    el(
      "div",
      { class: "b-acts" },
      copyButton(turn.content),
      button("Edit and send again", "edit", () => {
        const hint = acts.isLast(turn) ? "Answers again." : "Answers again; what follows is replaced.";
        edited(node, turn, "Send", hint, (text) => acts.resend(turn, text));
      }, { data: { do: "edit" } }),
      button("Delete with its answer", "trash", () => acts.remove(turn)),
    ),
  );
  return node;
}

function thoughts(turn) {
  if (!turn.thinking) return null;
  const title = turn.thinking_s === null ? "Thoughts" : `Thought for ${seconds(turn.thinking_s)}`;
  return el(
    "details",
    { class: "b-thinking" },
    el("summary", {}, title),
    el("div", { class: "b-thoughts b-md", html: turn.thinking }),
  );
}

function figuresNode(turn) {
  if (!turn.figures.length) return null;
  const line = el("p", { class: "b-figures", title: turn.engine });
  turn.figures.forEach((figure, index) => {
    if (index) line.append(el("span", { class: "b-dot", "aria-hidden": "true" }, "·"));
    line.append(el("span", { class: `b-figure-${figure.kind}`, title: figure.title }, figure.text));
  });
  return line;
}

// What one may want after an answer that did not simply end.
function offers(turn, acts) {
  if (!acts.isLast(turn)) return null;
  const found = [];
  const offer = (text, act, primary) =>
    found.push(el("button", { type: "button", class: primary ? "b-button b-primary" : "b-button", onclick: act }, text));
  if (turn.ended === "full") {
    offer("Leave out the oldest messages", () => acts.leaveOut(turn), true);
    offer("New conversation", () => acts.fresh());
  } else if (turn.ended === "length" && turn.content.trim()) {
    offer("Continue", () => acts.proceed(), true);
    offer("Settings", () => acts.settings());
  } else if (turn.ended === "length") {
    offer("Try again", () => acts.again(turn), true);
    offer("Settings", () => acts.settings());
  } else if (turn.ended === "failed" || !turn.content.trim()) {
    offer("Try again", () => acts.again(turn), true);
  }
  return found.length ? el("div", { class: "b-offers" }, ...found) : null;
}

function answerText(turn) {
  if (!turn.content) return null;
  if (state.settings.tint && turn.runs.length) return tinted(turn.content, turn.runs);
  return el("div", { class: "b-text b-md", html: turn.html });
}

export function answerNode(turn, acts) {
  const bad = turn.ended === "failed" || turn.ended === "full";
  const node = el("article", { class: "b-turn b-answer", "aria-label": "Answer", data: { turn: turn.id, ended: turn.ended } });
  const parts = [
    thoughts(turn),
    answerText(turn),
    turn.note && el("p", { class: bad ? "b-note b-bad" : "b-note" }, turn.note),
    offers(turn, acts),
    figuresNode(turn),
    el(
      "div",
      { class: "b-acts" },
      copyButton(turn.content),
      button("Answer again", "again", () => acts.again(turn)),
      button("Edit the text", "edit", () => {
        edited(node, turn, "Save", "Changes what the model reads of it.", (text) => acts.rewrite(turn, text));
      }, { data: { do: "edit" } }),
      button("Delete", "trash", () => acts.remove(turn)),
    ),
  ];
  node.append(...parts.filter(Boolean));
  return node;
}

export const turnNode = (turn, acts) => (turn.role === "user" ? promptNode(turn, acts) : answerNode(turn, acts));
