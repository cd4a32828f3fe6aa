// A list of what was measured and kept: opened again, deleted. The Race and the Lab tab each have one.
import { call } from "./api.js";
import { complain, confirmed, toast } from "./dialog.js";
import { $, button, el } from "./dom.js";

const NEWEST = 12; // shown before the others are asked for

export const when = (created) => new Date(created * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });

// Who extends it says in `line(it)` what an entry looks like.
export class Kept {
  // `noun`: "race", also the name of its routes with an s; `place`: the id of where the list stands, and `none` what
  // stands there while it is empty. `open(id)` shows one, `gone(id)` is told of a deleted one.
  constructor({ noun, place, none, open, gone }) {
    Object.assign(this, { noun, place, none, open, gone });
    this.told = "";
    this.most = NEWEST;
  }

  async refresh() {
    let listing;
    try {
      listing = await call("GET", `${this.noun}s`);
    } catch (problem) {
      complain(problem);
      return;
    }
    if (listing.set_aside.length) toast(`Could not read ${listing.set_aside.join(", ")}: kept aside, the rest is here.`, "bad");
    const unreadable = listing.unreadable.join("\n");
    if (unreadable && unreadable !== this.told) toast(unreadable, "bad");
    this.told = unreadable;
    const kept = listing[`${this.noun}s`];
    $(this.place).replaceChildren(...(kept.length ? this.list(kept) : [el("p", { class: "b-muted" }, this.none)]));
  }

  // The newest; the others when they are asked for.
  list(kept) {
    const list = el("ul", { class: "r-list" }, ...kept.slice(0, this.most).map((it) => this.line(it)));
    const rest = kept.slice(this.most);
    if (!rest.length) return [list];
    const more = el("button", { type: "button", class: "b-button", onclick: () => {
      this.most = Infinity;
      list.append(...rest.map((it) => this.line(it)));
      more.remove();
    } }, `Show all ${kept.length}`);
    return [list, more];
  }

  name(it) {
    return `the ${this.noun} of ${when(it.created)}`;
  }

  // What opens an entry, `content` its texts behind the date.
  opener(it, title, ...content) {
    return el(
      "button",
      { type: "button", class: "r-open", title, onclick: () => this.open(it.id) },
      el("span", { class: "r-when" }, when(it.created)),
      ...content,
    );
  }

  deleter(it) {
    return button(`Delete ${this.name(it)}`, "trash", () => this.remove(it));
  }

  async remove(it) {
    if (!(await confirmed(`Delete this ${this.noun}?`, "It is removed from this machine for good.", "Delete", true))) return;
    try {
      await call("DELETE", `${this.noun}s/${it.id}`);
      this.gone(it.id);
    } catch (problem) {
      complain(problem);
    }
    await this.refresh();
  }
}
