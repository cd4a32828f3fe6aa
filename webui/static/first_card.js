// The card that offers a model and follows its way here. It is built anew when something else is to be shown;
// while bytes come in, only figures change in place.
import { el, icon } from "./dom.js";
import { itemText, offerText, percent, size, totalText } from "./first_text.js";

const PARTS = [["engine", "Engine"], ["weights", "Weights"], ["drafter", "Drafter"]];
// What of the machine the choice hangs on; the rest is below.
const MAIN = /^(GPU|Processor|Memory|Hardware)/;
const PATH = /^([/\\~]|[A-Za-z]:)/; // else it is an address

let cards = 0;

// Reasons may begin small, as halves of a sentence do; a name such as llama.cpp stays as it is.
function sentence(text) {
  const begun = /^[a-z]+[ ,:;]/.test(text) ? text[0].toUpperCase() + text.slice(1) : text;
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export class Card {
  // `act(name)` is called for each button; `chat`: it stands in the chat and can be put off.
  // `models`: the list of other ones, or null.
  constructor(act, chat, models = null) {
    this.act = act;
    this.chat = chat;
    this.models = models;
    cards += 1;
    this.titleId = `f-title-${cards}`;
    this.node = el("section", { class: "f-card", "aria-labelledby": this.titleId });
    this.open = new Set();
    this.shown = "";
  }

  // `view`: {mode, now, offer, problem, machine, practice, running, starting, waiting}, see first.js.
  draw(view) {
    const { now, ...rest } = view;
    const items = now?.items.map((item) => [item.part, item.name, item.where]);
    const shown = JSON.stringify([rest, items, now?.error, now?.remedy, now?.phase]);
    if (shown !== this.shown) {
      this.shown = shown;
      this.build(view);
    }
    this.update(view);
  }

  build(view) {
    const held = this.node.contains(document.activeElement) ? document.activeElement : null;
    const name = held?.dataset.act;
    this.bars = [];
    this.total = null;
    this.node.classList.toggle("f-slim", view.mode === "slim");
    this.node.dataset.mode = view.mode;
    const { mode } = view;
    const builders = { slim: () => this.slim(view), problem: () => this.problem(view), offer: () => this.offer(view) };
    this.node.replaceChildren(...(builders[mode] ?? (() => this.going(view)))().filter(Boolean));
    if (!held) return;
    // What was in focus is gone: the keyboard goes on from what took its place.
    const next = (name && this.node.querySelector(`[data-act="${name}"]:not(:disabled)`)) ?? this.node.querySelector(".f-actions button:not(:disabled)");
    (next ?? this.title).focus({ preventScroll: true });
  }

  head(title, ...lines) {
    this.title = el("h2", { id: this.titleId, tabindex: "-1" }, title);
    return el("div", { class: "f-head" }, this.title, ...lines.filter(Boolean).map((line) => el("p", {}, line)));
  }

  button(name, label, kind = "", disabled = false) {
    return el("button", { type: "button", class: `b-button ${kind}`, data: { act: name }, disabled, onclick: () => this.act(name) }, label);
  }

  actions(...nodes) {
    return el("div", { class: "f-actions" }, ...nodes.filter(Boolean));
  }

  details(name, summary, content) {
    const node = el("details", { class: "f-more", open: this.open.has(name) }, el("summary", { data: { act: name } }, summary), content);
    node.addEventListener("toggle", () => (node.open ? this.open.add(name) : this.open.delete(name)));
    return node;
  }

  shut(name) {
    this.open.delete(name);
    const summary = this.node.querySelector(`summary[data-act="${name}"]`);
    if (summary) summary.parentElement.open = false;
  }

  // Looked for when somebody opens it.
  others() {
    if (!this.models) return null;
    const node = this.details("models", "Another model", this.models.node);
    node.addEventListener("toggle", () => node.open && this.models.look());
    return node;
  }

  // ---- before anybody agreed

  slim({ offer, now, starting }) {
    const done = now?.phase === "done";
    const title = offer?.title ?? "The model";
    const text = done ? `${title} is ready.` : now?.phase === "failed" ? `${title} is not complete yet.` : `${title} ${foundWhole(offer) ? "is here, but was not checked yet" : `can be fetched${offer?.to_fetch ? `: ${size(offer.to_fetch)}` : ""}`}.`;
    this.title = el("h2", { id: this.titleId, tabindex: "-1", class: "f-line" }, text);
    return [this.title, this.actions(done ? this.button("use", "Use it now", "", starting) : this.button("show", "Show"))];
  }

  problem({ problem }) {
    return [
      this.head("No model can be fetched with these settings"),
      el("p", { class: "f-alert", role: "alert" }, `${sentence(problem.error)} ${problem.remedy}`.trim()),
      this.actions(this.button("look", "Look again")),
    ];
  }

  offer({ offer, now, machine, practice, running, waiting }) {
    const stopped = now?.phase === "cancelled";
    const hindered = Boolean(offer.offline) || !offer.disk_ok;
    const here = foundWhole(offer);
    const meanwhile = practice ? "the practice pair answers" : running && running !== offer.title ? `${running} answers` : "";
    const label = here ? "Check it" : offer.to_fetch === 0 ? "Get it ready" : offer.to_fetch === null ? "Fetch it" : `Fetch ${size(offer.to_fetch)}`;
    return [
      this.head(
        here ? `Use ${offer.title}` : `Get ${offer.title}`,
        here ? `It is on this machine already. It is read once before it is used, to be sure that it is the right file${meanwhile && `; until then, ${meanwhile}`}.` : `A language model that runs on this machine alone. Nothing is fetched before you press the button${meanwhile && `; until it is here, ${meanwhile}`}.`,
      ),
      stopped && !here && el("p", { class: "f-note" }, "Fetching was cancelled. What came so far is kept, and fetching goes on from there."),
      !offer.disk_ok && el("p", { class: "f-alert", role: "note" }, noRoom(offer)),
      offer.offline && el("p", { class: "f-alert", role: "note" }, offer.offline),
      this.facts(offer),
      offer.notices.length > 0 && el("ul", { class: "f-notices" }, ...offer.notices.map((text) => el("li", {}, text))),
      this.actions(
        this.button("begin", label, "b-primary", hindered || waiting),
        hindered && this.button("look", "Look again", "", waiting),
        this.chat && this.button("later", "Not now"),
      ),
      offer.licence && el("p", { class: "f-licence" }, `Licence of the model: ${offer.licence}`),
      this.others(),
      el("h3", { class: "f-sub" }, "What will run, and why"),
      this.parts(offer, offer.items, null, machine),
      ...offer.offers.map((text) => el("p", { class: "f-offers" }, text)),
      ...this.background(offer, machine),
    ];
  }

  facts(offer) {
    const all = offer.items.reduce((sum, item) => (sum === null || item.total === null ? null : sum + item.total), 0);
    const partly = offer.to_fetch !== null && all !== null && offer.to_fetch < all;
    const disk = [
      offer.disk_needed !== null && `${offer.disk_about ? "about " : ""}${size(offer.disk_needed)} needed`,
      offer.disk_free !== null && `${size(offer.disk_free)} free`,
    ].filter(Boolean).join(", ");
    const tight = offer.disk_needed !== null && offer.disk_free !== null && offer.disk_needed > offer.disk_free;
    const lacking = offer.items.filter((item) => !["done", "found"].includes(item.state));
    const files = lacking.length;
    const unknown = lacking.filter((item) => item.total === null).length;
    const more = [`${files} file${files === 1 ? "" : "s"}`, unknown && offer.to_fetch !== null && `the size of ${unknown} is not known yet`].filter(Boolean).join("; ");
    return el(
      "dl",
      { class: "f-facts" },
      fact("To fetch", null, offer.to_fetch === null ? "Size not known yet" : files === 0 ? "Nothing" : size(offer.to_fetch), files === 0 ? "All of it is here already" : partly ? `of ${size(all)}; the rest is here already` : more),
      fact("Disk", offer.disk_ok && !tight, !offer.disk_ok ? "Not enough space" : tight ? "Perhaps not enough space" : "Enough space", disk && sentence(disk), offer.folder),
      fact("Memory", offer.memory_ok, offer.memory_ok ? "It fits" : "Not all of it fits", offer.memory),
    );
  }

  background(offer, machine) {
    return [
      machine.length > 0 && this.details("machine", "Everything found on this machine", pairs(machine.map((row) => [row.name, row.value, row.source]))),
      offer.left_out.length > 0 && this.details("left", "What was left out, and why", pairs(offer.left_out)),
    ];
  }

  // ---- on its way

  going({ mode, now, offer, machine, practice, starting, waiting }) {
    const title = offer?.title ?? "the model";
    const Title = title[0].toUpperCase() + title.slice(1);
    const heads = {
      looking: [`Getting ${title}`, "Asking how large the files are …"],
      checking: [`Checking ${title}`, `It was found on this machine. It is read once, to be sure that it is the right file.${practice ? " You can chat with the practice pair meanwhile." : ""}`],
      running: [`Getting ${title}`, `${practice ? "You can chat with the practice pair meanwhile. " : ""}If you close Bonsai, what came so far is kept.`],
      paused: [`${Title} is paused`, "What came so far is kept, also when Bonsai is closed."],
      failed: [`${Title} is not complete yet`, "What came so far is kept."],
      done: [`${Title} is ready`, starting ? "It is being started. The status above says how far it is." : "Every file is here and was checked. The engine restarts with it; conversations are kept."],
    };
    const buttons = {
      looking: [this.button("cancel", "Cancel", "", waiting)],
      checking: [this.button("cancel", "Stop", "", waiting)],
      running: [this.button("pause", "Pause", "", waiting), this.button("cancel", "Cancel", "", waiting)],
      paused: [this.button("resume", "Resume", "b-primary", waiting), this.button("cancel", "Cancel", "", waiting)],
      failed: [this.button("retry", "Try again", "b-primary", waiting), this.chat && this.button("later", "Not now")],
      done: [this.button("use", starting ? "Starting …" : "Use it now", "b-primary", starting || waiting), this.chat && !starting && this.button("later", "Not now")],
    };
    const did = mode === "checking" ? "Checked" : "Fetched";
    if (mode !== "done") this.total = { bar: el("progress", { "aria-label": `${did} of everything` }), text: el("span", {}), part: el("b", {}) };
    return [
      this.head(...heads[mode]),
      mode === "failed" && el("div", { class: "f-alert", role: "alert" }, el("p", {}, el("b", {}, sentence(now.error || "Fetching stopped"))), now.remedy && el("p", {}, now.remedy)),
      this.total && el("div", { class: "f-total" }, el("div", { class: "f-figures" }, this.total.part, this.total.text), this.total.bar),
      this.actions(...buttons[mode]),
      mode === "failed" && this.others(),
      this.parts(offer, now.items, mode),
      ...(offer ? this.background(offer, machine) : []),
    ];
  }

  // ---- both

  parts(offer, items, mode, machine = []) {
    const whys = new Map(offer?.why ?? []);
    const found = PARTS.filter(([part]) => whys.has(part) || items.some((item) => item.part === part));
    const rows = found.map(([part, label]) => {
      const files = items.filter((item) => item.part === part);
      return el(
        "div",
        { class: "f-part" },
        el(mode === null ? "h4" : "h3", {}, label),
        el(
          "div",
          { class: "f-body" },
          mode === null && whys.has(part) && el("p", { class: "f-why" }, sentence(whys.get(part))),
          files.length > 0 && el("ul", { class: "f-files" }, ...files.map((item) => this.file(item, mode))),
        ),
      );
    }).filter((row) => mode === null || row.querySelector("li"));
    const main = machine.filter((row) => MAIN.test(row.name));
    return el(
      "div",
      { class: "f-parts" },
      main.length > 0 && el("div", { class: "f-part" }, el("h4", {}, "Found here"), el("div", { class: "f-body" }, ...main.map((row) => el("p", { class: "f-why" }, `${row.name}: ${row.value}`)))),
      mode === null && whys.has("model") && el("div", { class: "f-part" }, el("h4", {}, "Model"), el("div", { class: "f-body" }, el("p", { class: "f-why" }, sentence(whys.get("model"))))),
      ...rows,
    );
  }

  file(item, mode) {
    const text = el("span", { class: "f-state" });
    const name = el("span", { class: "f-name" }, item.name);
    const here = item.in_place ? "Used where it is" : mode === "checking" || ["found", "done"].includes(item.state) ? "Lies at" : PATH.test(item.where) ? "Goes to" : "From";
    const from = item.source && !item.in_place ? `From the ${item.source}. ` : "";
    const where = el("p", { class: "f-where" }, `${from}${here} ${item.where}`);
    const bar = mode !== null && mode !== "done" && !item.in_place ? el("progress", { "aria-label": `${mode === "checking" ? "Checked" : "Fetched"} of ${item.name}` }) : null;
    const node = el("li", {}, el("div", { class: "f-figures" }, name, text), bar, (mode === null || mode === "checking" || item.in_place) && item.where && where);
    this.bars.push({ part: item.part, name: item.name, node, text, bar });
    return node;
  }

  // Figures of what is there. Cheap: it comes four times a second.
  update({ mode, now, offer }) {
    if (this.total && now) {
      setText(this.total.part, now.phase === "looking" ? "" : `${percent(now.have, now.total) ?? "?"} %`);
      setText(this.total.text, now.phase === "looking" ? "" : totalText(now));
      fill(this.total.bar, now.phase === "looking" ? null : now.have, now.total, totalText(now));
    }
    const items = mode === "offer" ? offer.items : now?.items ?? [];
    for (const row of this.bars) {
      const item = items.find((it) => it.part === row.part && it.name === row.name);
      if (!item) continue;
      const text = mode === "offer" ? offerText(item) : itemText(item, now.phase);
      setText(row.text, text);
      row.node.dataset.state = item.state;
      if (row.bar) fill(row.bar, item.state === "done" ? 1 : item.have, item.state === "done" ? 1 : item.total, text);
    }
  }
}

// A bar without a known end has no value; its text says how it stands in either case.
function fill(bar, have, total, text) {
  if (have === null || !total) {
    bar.removeAttribute("value");
  } else {
    bar.max = total;
    bar.value = Math.min(have, total);
  }
  bar.setAttribute("aria-valuetext", text);
  setText(bar, text);
}

// All that is lacking lies here, and has only to be read.
const foundWhole = (offer) => Boolean(offer?.items.some((item) => item.state === "found") && offer.items.every((item) => ["done", "found"].includes(item.state)));

function noRoom({ disk_needed: needed, disk_free: free, folder }) {
  const more = needed !== null && free !== null && needed > free ? `Make room for ${size(needed - free)} more` : "Make room";
  return `${more} in ${folder}, or choose another place with BONSAI_HOME, then look again.`;
}

function fact(label, good, value, more, where) {
  const sign = good === null ? null : el("span", { class: good ? "f-good" : "f-bad" }, icon(good ? "check" : "warn"));
  return el(
    "div",
    {},
    el("dt", {}, label),
    el("dd", {}, el("b", { class: good === false ? "f-bad" : null }, sign, value), more && el("span", {}, more), where && el("span", { class: "f-path" }, where)),
  );
}

function pairs(rows) {
  return el(
    "dl",
    { class: "f-pairs" },
    ...rows.map(([name, value, source]) => el("div", {}, el("dt", {}, name), el("dd", {}, value, source ? el("span", { class: "b-muted" }, ` (${source})`) : null))),
  );
}
