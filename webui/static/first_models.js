// Another model: the list to choose from, on the card and on the Machine tab.
import { call } from "./api.js";
import { complain, confirmed } from "./dialog.js";
import { el, icon } from "./dom.js";
import { joined, size } from "./first_text.js";
import { state } from "./state.js";

export const AUTO = "auto";
const BUSY = ["looking", "checking", "running", "paused"];
const WAIT_MS = 100;
const MOST_WAITS = 100; // then the server says what stands against it

const HERE = { yes: "here already", unread: "here, not checked yet", partly: "the weights are here already", no: "to fetch" };

function sizeText(row) {
  const known = row.size === null ? "size not known yet" : size(row.size);
  return `${known}${row.size_about && row.size !== null ? " and a file of unknown size" : ""}${row.here === "no" && row.size !== null ? " " : ", "}${HERE[row.here]}`;
}

// What is asked for now, in a sentence.
export function nowText(found) {
  const asked = found.rows.find((row) => row.chosen);
  const taken = found.rows.find((row) => row.automatic);
  if (found.fixed) return found.fixed;
  if (asked) return `${asked.label} was chosen.`;
  if (taken) return `${taken.label} is taken automatically.`;
  return found.other ? `The settings ask for ${found.other}.` : "";
}

export class Models {
  // `chose(name)` is called when another one was chosen.
  constructor(chose) {
    this.chose = chose;
    this.found = null;
    this.waiting = false;
    this.node = el("div", { class: "f-models" }, el("p", { class: "b-muted" }, "Looking …"));
    this.onLook = () => {};
  }

  async look() {
    let answer = null;
    try {
      answer = await call("GET", "models");
    } catch (problem) {
      answer = { problem: { error: problem.message, remedy: "" } };
    }
    if (answer.problem) {
      this.shown = "";
      if (!state.lost && !state.closed) this.node.replaceChildren(el("p", { class: "f-alert", role: "alert" }, `${answer.problem.error} ${answer.problem.remedy}`.trim()));
      return;
    }
    this.found = answer;
    this.draw();
    this.onLook(this.found);
  }

  draw() {
    const shown = JSON.stringify([this.found, this.waiting, state.status?.phase === "ready" && state.status.model]);
    if (shown === this.shown) return;
    this.shown = shown;
    const held = this.node.contains(document.activeElement) ? document.activeElement.dataset.act : null;
    const { rows, automatic, fixed, other } = this.found;
    const free = !other && !rows.some((row) => row.chosen);
    this.node.replaceChildren(
      ...[
        fixed && el("p", { class: "f-note" }, `${fixed} Leave it out, and start Bonsai again, to choose here.`),
        !fixed && other && el("p", { class: "f-note" }, `The settings ask for ${other} now.`),
        el(
          "ul",
          { class: "f-model-list", "aria-label": "Models" },
          this.row({ name: AUTO, label: "Automatic", chosen: free, runs: true }, [el("p", {}, `${automatic || "None fits at this moment"}: the 27B, or the largest of its family that fits.`)]),
          ...rows.map((row) => this.row(row, this.about(row))),
        ),
      ].filter(Boolean),
    );
    if (held) this.node.querySelector(`[data-act="${held}"]:not(:disabled)`)?.focus({ preventScroll: true });
  }

  about(row) {
    const whole = row.fits.startsWith("Fits");
    return [
      el("p", {}, joined(sizeText(row), row.drafter), row.licence && " · ", row.licence && el("span", { class: "f-whole" }, `Licence ${row.licence}`)),
      el(
        "p",
        { class: "f-model-fit" },
        el("span", { class: whole ? "f-good" : row.runs ? null : "f-bad" }, icon(whole ? "check" : "warn")),
        el("span", {}, el("b", {}, `${row.fits}.`), ` ${row.says}`),
      ),
    ];
  }

  row(row, about) {
    const runs = state.status?.phase === "ready" && !state.status.practice && state.status.model === row.label;
    const tags = [runs && "Runs now", row.chosen && (row.name === AUTO ? "In use" : "Chosen"), row.automatic && "Automatic"].filter(Boolean);
    const button = row.runs && !row.chosen && !this.found.fixed;
    return el(
      "li",
      { class: "f-model", data: { model: row.name, runs: row.runs ? "yes" : "no" } },
      el("div", { class: "f-model-body" }, el("h4", {}, row.label, ...tags.map((text) => el("span", { class: "f-tag" }, text))), ...about),
      button && el("button", { type: "button", class: "b-button", "aria-label": `Use it: ${row.label}`, disabled: this.waiting, data: { act: `model-${row.name}` }, onclick: () => this.choose(row) }, "Use it"),
    );
  }

  async choose(row) {
    const busy = () => BUSY.includes(state.fetch?.phase);
    // What is only read is lost by nobody.
    if (busy() && state.fetch.phase !== "checking") {
      const text = "What came so far is kept: fetching can go on from there when that model is chosen again.";
      if (!(await confirmed(`Cancel fetching, and use ${row.name === AUTO ? "the automatic choice" : row.label}?`, text, "Cancel fetching"))) return;
    }
    this.waiting = true;
    this.draw();
    try {
      if (busy()) await call("POST", "fetch/cancel", {});
      for (let waits = 0; busy() && waits < MOST_WAITS; waits += 1) await new Promise((go) => setTimeout(go, WAIT_MS));
      await call("POST", "models", { model: row.name });
      this.waiting = false;
      await this.look();
      this.chose(row);
    } catch (problem) {
      complain(problem);
      this.waiting = false;
      this.draw();
    }
  }
}
