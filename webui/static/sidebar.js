// The list of conversations, and what one can do with each.
import { call } from "./api.js";
import { asked, complain, confirmed, toast } from "./dialog.js";
import { $, button, el, icon } from "./dom.js";
import { open } from "./chat.js";
import { on, state } from "./state.js";

let listing = { conversations: [], set_aside: [], unreadable: [] };
let told = "";

async function refresh() {
  try {
    listing = await call("GET", "conversations");
  } catch (problem) {
    complain(problem);
    return;
  }
  if (listing.set_aside.length) {
    toast(`Could not read ${listing.set_aside.join(", ")}: kept aside, the rest is here.`, "bad");
  }
  const unreadable = listing.unreadable.join("\n");
  if (unreadable && unreadable !== told) toast(unreadable, "bad");
  told = unreadable;
  draw();
}

const MANY = 12; // conversations from which on a search is of use
const DAY = 86400000;

function age(updated) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  const then = updated * 1000;
  if (then >= midnight) return "Today";
  if (then >= midnight - DAY) return "Yesterday";
  if (then >= midnight - 7 * DAY) return "Last 7 days";
  return "Older";
}

function draw() {
  const nodes = [];
  let group = "";
  const wanted = $("b-search").value.trim().toLowerCase();
  $("b-search").hidden = listing.conversations.length < MANY && !wanted;
  for (const it of listing.conversations) {
    if (!it.title.toLowerCase().includes(wanted)) continue;
    const its = age(it.updated);
    if (its !== group) {
      group = its;
      nodes.push(el("li", { class: "b-group", "aria-hidden": "true" }, group));
    }
    nodes.push(line(it));
  }
  if (!nodes.length) {
    const text = wanted ? "No title has these words." : "Conversations are kept here, on this machine only.";
    nodes.push(el("li", { class: "b-muted b-list-empty" }, text));
  }
  $("b-list").replaceChildren(...nodes);
}

function line(it) {
  const current = state.conversation?.id === it.id;
  const title = it.title || "Untitled";
  return el(
    "li",
    { class: current ? "b-item b-current" : "b-item" },
    el("button", {
      type: "button",
      class: "b-item-open",
      "aria-current": current ? "true" : null,
      title,
      onclick: () => {
        narrow(false);
        open(it.id).catch(complain);
      },
    }, title),
    button(`More for ${title}`, "more", (event) => menu(event.currentTarget, it), { "aria-haspopup": "menu" }),
  );
}

// ---- the menu of one conversation

function menu(anchor, it) {
  document.querySelector(".b-menu")?.remove();
  const item = (text, act, kind = "") =>
    el("button", { type: "button", role: "menuitem", class: kind, onclick: () => { shut(); act(); } }, text);
  const list = el(
    "div",
    { class: "b-menu", role: "menu" },
    item("Rename", () => rename(it)),
    item("Export as Markdown", () => save(it, "markdown")),
    item("Export as JSON", () => save(it, "json")),
    item("Delete", () => remove(it), "b-danger-text"),
  );
  const outside = (event) => {
    if (!list.contains(event.target)) shut();
  };
  const shut = () => {
    list.remove();
    document.removeEventListener("pointerdown", outside, true);
    anchor.setAttribute("aria-expanded", "false");
    anchor.focus();
  };
  list.addEventListener("keydown", (event) => {
    const items = [...list.children];
    const at = items.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") {
      event.preventDefault();
      shut();
    } else if (to !== undefined) {
      event.preventDefault();
      items[(to + items.length) % items.length].focus();
    }
  });
  document.body.append(list);
  const at = anchor.getBoundingClientRect();
  list.style.left = `${Math.max(8, Math.min(at.left, innerWidth - list.offsetWidth - 8))}px`;
  const below = at.bottom + 4;
  list.style.top = `${below + list.offsetHeight > innerHeight ? at.top - list.offsetHeight - 4 : below}px`;
  anchor.setAttribute("aria-expanded", "true");
  document.addEventListener("pointerdown", outside, true);
  list.firstChild.focus();
}

async function rename(it) {
  const title = await asked("Rename this conversation", it.title, "Rename");
  if (title) await call("PATCH", `conversations/${it.id}`, { title }).catch(complain);
}

async function remove(it) {
  if (!(await confirmed(`Delete “${it.title || "Untitled"}”?`, "It is removed from this machine for good.", "Delete", true))) return;
  try {
    await call("DELETE", `conversations/${it.id}`);
    if (state.conversation?.id === it.id) await open(null);
  } catch (problem) {
    complain(problem);
  }
}

function save(it, form) {
  const link = el("a", { href: `/bonsai/conversations/${it.id}/export?form=${form}`, download: "" });
  document.body.append(link);
  link.click();
  link.remove();
}

async function take(file) {
  if (!file) return;
  try {
    const made = await call("POST", "conversations/import", await file.text(), true);
    toast("Imported");
    await open(made.id);
  } catch (problem) {
    complain(problem);
  }
}

// ---- narrow screens: the list lies over the conversation

function narrow(shown) {
  document.body.classList.toggle("b-side-on", shown);
  $("b-side-open").setAttribute("aria-expanded", String(shown));
}

export function start() {
  $("b-new").append(icon("plus"), el("span", {}, "New chat"));
  $("b-new").addEventListener("click", () => { narrow(false); open(null); });
  $("b-import").append(icon("import"), el("span", {}, "Import a conversation"));
  const file = $("b-import-file");
  $("b-import").addEventListener("click", () => file.click());
  file.addEventListener("change", () => { take(file.files[0]); file.value = ""; });
  $("b-side-open").append(icon("menu"));
  $("b-side-open").addEventListener("click", () => {
    if (matchMedia("(max-width: 860px)").matches) narrow(!document.body.classList.contains("b-side-on"));
    else {
      const hidden = document.body.classList.toggle("b-side-off");
      $("b-side-open").setAttribute("aria-expanded", String(!hidden));
    }
  });
  $("b-side-close").append(icon("close"));
  $("b-side-close").addEventListener("click", () => narrow(false));
  $("b-shade").addEventListener("click", () => narrow(false));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && document.body.classList.contains("b-side-on")) narrow(false);
  });
  on("conversation", () => {
    const title = state.conversation?.title || "New chat";
    $("b-title").textContent = title;
    document.title = state.conversation ? `${title} – Bonsai` : "Bonsai";
    draw();
  });
  $("b-search").addEventListener("input", draw);
  let soon = 0;
  const later = () => {
    // Several changes at once are one look at the list.
    clearTimeout(soon);
    soon = setTimeout(refresh, 80);
  };
  on("changed", later);
  on("gone", later);
  refresh();
}
