// The races that were kept: opened again, deleted, exported.
import { call } from "./api.js";
import { complain, confirmed, toast } from "./dialog.js";
import { $, button, el } from "./dom.js";
import { wordNode } from "./race_result.js";

const when = (created) => new Date(created * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });

function verdict(it) {
  if (it.ratio === null) return it.ended === "failed" ? "broke off" : "stopped";
  return `${it.ratio.toFixed(2)}x ${it.word}`;
}

export class History {
  // `open(id)` shows one; `gone(id)` is told of a deleted one.
  constructor(open, gone) {
    this.open = open;
    this.gone = gone;
    this.told = "";
    this.most = 12;
  }

  async refresh() {
    let listing;
    try {
      listing = await call("GET", "races");
    } catch (problem) {
      complain(problem);
      return;
    }
    if (listing.set_aside.length) toast(`Could not read ${listing.set_aside.join(", ")}: kept aside, the rest is here.`, "bad");
    const unreadable = listing.unreadable.join("\n");
    if (unreadable && unreadable !== this.told) toast(unreadable, "bad");
    this.told = unreadable;
    const place = $("r-history");
    if (listing.races.length) place.replaceChildren(...this.lines(listing.races));
    else place.replaceChildren(el("p", { class: "b-muted" }, "Each race is kept here, on this machine only, and can be replayed."));
  }

  // The newest; the others when they are asked for.
  lines(races) {
    const list = el("ul", { class: "r-list" }, ...races.slice(0, this.most).map((it) => this.line(it)));
    const rest = races.slice(this.most);
    if (!rest.length) return [list];
    const more = el("button", { type: "button", class: "b-button", onclick: () => {
      this.most = Infinity;
      list.append(...rest.map((it) => this.line(it)));
      more.remove();
    } }, `Show all ${races.length}`);
    return [list, more];
  }

  line(it) {
    const text = [it.kind, it.language].filter(Boolean).join(", ") || it.prompt;
    return el(
      "li",
      { class: "r-item" },
      el(
        "button",
        { type: "button", class: "r-open", title: it.prompt, onclick: () => this.open(it.id) },
        el("span", { class: "r-when" }, when(it.created)),
        el("span", { class: "r-pair" }, `${it.sides[1]} against ${it.sides[0]}`),
        el("span", { class: "r-about-text" }, [text, it.model].filter(Boolean).join(" · ")),
        wordNode(it.ratio === null ? "" : it.word, verdict(it)),
      ),
      button(`Delete the race of ${when(it.created)}`, "trash", () => this.remove(it)),
    );
  }

  async remove(it) {
    if (!(await confirmed("Delete this race?", "It is removed from this machine for good.", "Delete", true))) return;
    try {
      await call("DELETE", `races/${it.id}`);
      this.gone(it.id);
    } catch (problem) {
      complain(problem);
    }
    await this.refresh();
  }
}

const FORMS = [["html", "HTML card"], ["markdown", "Markdown"], ["json", "JSON"]];

export function exportNode(id) {
  const bare = el("input", { type: "checkbox" });
  const save = (form) => {
    const link = el("a", { href: `/bonsai/races/${id}/export?form=${form}&texts=${bare.checked ? 0 : 1}`, download: "" });
    document.body.append(link);
    link.click();
    link.remove();
  };
  return el(
    "details",
    { class: "r-more r-export" },
    el("summary", {}, "Export"),
    el("p", { class: "b-muted" }, "The card is one file: it opens without a network and replays by itself."),
    el("label", { class: "r-check" }, bare, " leave out prompt and texts"),
    el("div", { class: "r-buttons" }, ...FORMS.map(([form, label]) => el("button", { type: "button", class: "b-button", onclick: () => save(form) }, label))),
  );
}
