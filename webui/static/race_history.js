// The races that were kept: opened again, deleted, exported.
import { el } from "./dom.js";
import { Kept } from "./history.js";
import { wordNode } from "./race_result.js";

const NONE = "Each race is kept here, on this machine only, and can be replayed.";

function verdict(it) {
  if (it.ratio === null) return it.ended === "failed" ? "broke off" : "stopped";
  return `${it.ratio.toFixed(2)}x ${it.word}`;
}

export class History extends Kept {
  // `open` and `gone` as in Kept.
  constructor({ open, gone }) {
    super({ noun: "race", place: "r-history", none: NONE, open, gone });
  }

  line(it) {
    const text = [it.kind, it.language].filter(Boolean).join(", ") || it.prompt;
    return el(
      "li",
      { class: "r-item" },
      this.opener(
        it,
        it.prompt,
        el("span", { class: "r-pair" }, `${it.sides[1]} against ${it.sides[0]}`),
        el("span", { class: "r-about-text" }, [text, it.model].filter(Boolean).join(" · ")),
        wordNode(it.ratio === null ? "" : it.word, verdict(it)),
      ),
      this.deleter(it),
    );
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
