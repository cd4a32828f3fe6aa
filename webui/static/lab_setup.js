// What to measure: texts, methods, temperatures, how long; and what that will take.
import { count, el } from "./dom.js";
import { on, state } from "./state.js";

const KINDS = { code: "Code", prose: "Prose", maths: "Maths", chat: "Chat", rewrite: "Rewrite", thinking: "Thinking" };
const FAMILIES = {
  "draft-dspark": ["DSpark drafter", "lengths of its draft"],
  "draft-simple": ["Small model as drafter", "draft-simple, lengths of its draft"],
  "draft-mtp": ["Prediction heads", "MTP, lengths of the draft"],
  "draft-eagle3": ["EAGLE-3 heads", "lengths of the draft"],
};
const MINUTES = [1, 3, 5, 10, 20, 30, 60, 120, 240];
const PLACES = { cpu: "drafter on the CPU (-devd none)", ngld0: "drafter off the GPU's memory (-ngld 0)" };

const sameMethod = (a, b) => a.type === b.type && a.length === b.length && a.draft_on === b.draft_on && (a.p_min === null) === (b.p_min === null);

export function chips(legend, choices, onchange, type = "checkbox", note = null) {
  const name = `l-${legend.toLowerCase().replace(/\W+/g, "-")}`;
  return el(
    "fieldset",
    { class: "r-radios l-chips" },
    el("legend", {}, legend, note && el("small", {}, note)),
    ...choices.map(({ label, checked, disabled, value }) =>
      el(
        "label",
        { class: disabled ? "l-not" : null },
        el("input", { type, name, value, checked, disabled, onchange: (event) => onchange(value, event.target) }),
        el("span", {}, label),
      ),
    ),
  );
}

export const time = (s) => {
  if (s < 50) return `${Math.max(1, Math.round(s / 5) * 5)} seconds`;
  if (s < 100) return "a minute and a half";
  const minutes = s / 60;
  if (minutes < 100) return `${Math.round(minutes)} minutes`;
  return `${(minutes / 60).toFixed(1)} hours`;
};

export class Setup {
  // `act(values)` starts a lab.
  constructor(form, found, act) {
    this.form = form;
    this.found = found;
    this.act = act;
    this.busy = false;
    this.preset = "quick";
    this.language = "en";
    this.what = el("p", { class: "r-what b-muted" });
    this.takes = el("p", { class: "r-what l-takes" });
    this.wait = el("p", { class: "r-wait", hidden: true }, "An answer is running: the lab waits until it has ended.");
    this.go = el("button", { type: "submit", class: "b-button r-go" }, "Start the lab");
    this.details = el("details", { class: "r-more l-more" });
    this.presets = chips("Measure", [
      { label: "Quick", value: "quick", checked: true },
      { label: "Everything", value: "whole" },
      { label: "Own choice", value: "own" },
    ], (preset) => this.take(preset), "radio");
    form.replaceChildren(
      el("h2", {}, "Or measure everything"),
      el("p", { class: "b-muted" }, "Every kind of text by every method, in random order, repeated until the figures are sure: with a table of all, every draft length, and what to use for coding and what for chat."),
      this.presets,
      this.details,
      this.what,
      this.takes,
      this.wait,
      el("div", { class: "r-buttons" }, this.go),
    );
    form.onsubmit = (event) => { event.preventDefault(); this.submit(); };
    this.take("quick");
    on("status", () => this.draw());
  }

  // Fills in a ready-made choice; one's own begins with what stands there.
  take(preset) {
    this.preset = preset;
    if (preset === "own") {
      this.details.open = true;
      this.draw();
      return;
    }
    this.base = preset;
    const values = this.found[preset];
    this.kinds = new Set(values.kinds);
    this.temperatures = new Set(values.temperatures);
    this.chosen = new Set(this.found.offers.filter((offer) => values.methods.some((it) => sameMethod(it, offer))));
    this.fill(values);
    this.draw();
  }

  own() {
    this.preset = "own";
    for (const input of this.presets.querySelectorAll("input")) input.checked = input.value === "own";
    this.draw();
  }

  toggle(set) {
    return (value, input) => {
      if (input.checked) set.add(value);
      else set.delete(value);
      this.own();
    };
  }

  fill(values) {
    const { found } = this;
    this.tokens = el("input", { class: "b-field", type: "number", min: "2", max: found.most_tokens, step: "1", required: true, value: values.tokens, oninput: () => this.own() });
    this.runs = el(
      "select",
      { class: "b-field", onchange: () => this.own() },
      el("option", { value: "" }, `until sure, at most ${values.most}`),
      ...found.runs.map((number) => el("option", { value: number }, String(number))),
    );
    this.minutes = el(
      "select",
      { class: "b-field", onchange: () => this.own() },
      ...[...new Set([...MINUTES, ...(values.minutes === null ? [] : [values.minutes])])].sort((a, b) => a - b)
        .map((number) => el("option", { value: number, selected: number === values.minutes }, number === 1 ? "1 minute" : number < 100 ? `${number} minutes` : `${number / 60} hours`)),
      el("option", { value: "", selected: values.minutes === null }, "no limit"),
    );
    this.least = values.least;
    this.most = values.most;
    const open = this.details.open;
    this.details.replaceChildren(
      el("summary", {}, "What exactly: texts, methods, temperatures, time"),
      chips("Text", found.kinds.map((kind) => ({ label: KINDS[kind] ?? kind, value: kind, checked: this.kinds.has(kind) })), this.toggle(this.kinds)),
      chips("Language", Object.entries(found.languages).map(([value, label]) => ({ label, value, checked: value === this.language })), (language) => { this.language = language; this.draw(); }, "radio"),
      chips("Temperature", found.temperatures.map((value) => ({ label: String(value), value, checked: this.temperatures.has(value) })), this.toggle(this.temperatures)),
      el("div", { class: "l-methods", role: "group", "aria-label": "Methods" }, ...this.methods()),
      el(
        "div",
        { class: "r-fields" },
        el("label", {}, "Tokens of an answer, at most", this.tokens),
        el("label", {}, "Answers of each", this.runs),
        el("label", {}, "Time", this.minutes),
      ),
    );
    this.details.open = open;
  }

  // The methods in groups, with what stands against them in words, once for each reason.
  methods() {
    const offers = this.found.offers.filter((offer) => offer.type !== "none");
    const groups = [];
    const add = (legend, note, members, label) => {
      if (members.length) groups.push(this.group(legend, note, members, label));
    };
    const usual = (offer) => offer.p_min === null && offer.draft_on === null;
    add("Always", "to compare with", this.found.offers.filter((offer) => offer.type === "none"), () => "plain decoding");
    for (const [type, [name, note]] of Object.entries(FAMILIES)) {
      add(name, note, offers.filter((offer) => offer.type === type && usual(offer)), (offer) => offer.length ?? "block");
    }
    add("Phrase tables", "drafts are looked up in the text so far", offers.filter((offer) => offer.type.startsWith("ngram-") && !offer.type.includes(",")), (offer) => offer.name);
    add("Mixed", "looked up first, else drafted", offers.filter((offer) => offer.type.includes(",")), (offer) => offer.name);
    const sure = offers.filter((offer) => offer.p_min !== null);
    add("p-min", "a draft ends before a token less probable than", sure, (offer) => offer.name.replace(/, p-min.*/, ""));
    if (sure.some((offer) => !offer.why_not)) {
      this.pMin = el("input", { class: "b-field l-p-min", type: "number", min: "0", max: "1", step: "0.05", required: true, value: sure[0].p_min, "aria-label": "p-min", oninput: () => this.own() });
      groups.at(-1).querySelector("fieldset").append(this.pMin);
    }
    add("Where the drafter runs", "else with the target", offers.filter((offer) => offer.draft_on !== null), (offer) => `${offer.name.split(",")[0]}: ${PLACES[offer.draft_on] ?? offer.draft_on}`);
    return groups;
  }

  group(legend, note, members, label) {
    const fields = chips(legend, members.map((offer) => ({
      label: label(offer),
      value: offer.name,
      checked: offer.type === "none" || (this.chosen.has(offer) && !offer.why_not),
      disabled: offer.type === "none" || Boolean(offer.why_not),
    })), (name, input) => this.toggle(this.chosen)(members.find((offer) => offer.name === name), input), "checkbox", note);
    const reasons = new Map();
    for (const offer of members) if (offer.why_not) reasons.set(offer.why_not, [...(reasons.get(offer.why_not) ?? []), label(offer)]);
    const all = reasons.size === 1 && [...reasons.values()][0].length === members.length;
    return el(
      "div",
      { class: "l-group" },
      fields,
      ...[...reasons].map(([why, names]) => el("p", { class: "l-why" }, all ? `Not here. ${why}` : `Not here: ${names.join(", ")}. ${why}`)),
    );
  }

  picked() {
    return this.found.offers.filter((offer) => this.chosen.has(offer) && offer.type !== "none" && !offer.why_not);
  }

  draw() {
    const methods = this.picked();
    const parts = [this.kinds.size, methods.length + 1, this.temperatures.size];
    const cells = parts[0] * parts[1] * parts[2];
    const exactly = Number(this.runs.value) || null;
    const [least, most] = [exactly ?? this.least, exactly ?? this.most];
    const budget = this.minutes.value ? Number(this.minutes.value) * 60 : null;
    const some = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
    const perBlock = methods.reduce((sum, offer) => sum + (offer.fresh ? parts[0] * parts[2] : 1), 1);
    const fresh = methods.some((offer) => offer.fresh);
    this.what.textContent = cells
      ? `${some(cells, "cell")}: ${some(parts[0], "kind")} of text, ${some(parts[1], "method")} (plain decoding among them), ${some(parts[2], "temperature")}. ` +
        `Each is answered ${exactly ? some(exactly, "time") : `${least} to ${most} times, until its ratio to plain is sure within ±${Math.round(this.found.precision * 100)} %`}. ` +
        `A round over all of them starts ${some(perBlock, "engine")} at most${fresh ? " (phrase tables that remember need a new one for each answer)" : ""}; only one works at a time, and the chat waits.`
      : "Choose at least one kind of text and one temperature.";
    this.takes.textContent = cells ? this.estimate(cells * least, cells * most, Number(this.tokens.value) || 0, budget) : "";
    this.wait.hidden = this.busy || state.status?.busy_with !== "chat";
    this.go.disabled = this.busy || !cells;
  }

  // What it will take, as far as anything like it was measured here before.
  estimate(least, most, tokens, budget) {
    const { pace } = this.found;
    const end = budget === null ? "" : ` No answer begins after ${time(budget)}; what is left can be gone on with later.`;
    if (!pace) return `${budget === null ? "How long it takes will show with the first answers." : `It takes ${time(budget)} at most, less on a quick machine: how quick this one is will show with the first answers.`}${budget === null ? "" : " What is left then can be gone on with later."}`;
    const takes = (answers, at) => answers * (tokens * pace.token_s[at] + pace.extra_s[at]);
    const [low, high] = [takes(least, 0), takes(most, 1)];
    if (budget !== null && low >= budget) return `All of it would take about ${time(low)} to ${time(high)} (by ${pace.source}), more than the ${time(budget)} that it may.${end}`;
    const [from, to] = [time(low), time(budget === null ? high : Math.min(high, budget))];
    return `About ${from === to ? from : `${from} to ${to}`}, by ${pace.source}.${end}`;
  }

  // What is known of this machine's pace may be new.
  update({ pace }) {
    this.found.pace = pace;
    this.draw();
  }

  running(busy) {
    this.busy = busy;
    this.form.hidden = busy;
    this.draw();
  }

  submit() {
    if (this.busy) return;
    if (!this.form.checkValidity()) this.details.open = true;
    if (!this.form.reportValidity()) return;
    const methods = this.picked().map(({ type, length, p_min, draft_on }) => ({ type, length, draft_on, p_min: p_min === null ? null : Number(this.pMin?.value ?? p_min) }));
    this.act({
      preset: this.base,
      kinds: this.found.kinds.filter((kind) => this.kinds.has(kind)),
      language: this.language,
      methods,
      temperatures: this.found.temperatures.filter((value) => this.temperatures.has(value)),
      tokens: Number(this.tokens.value),
      runs: this.runs.value ? Number(this.runs.value) : null,
      minutes: this.minutes.value ? Number(this.minutes.value) : null,
    });
  }
}
