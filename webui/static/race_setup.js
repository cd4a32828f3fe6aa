// What to race: two ways to run the model, a prompt, and the conditions; and what will happen then.
import { count, el } from "./dom.js";
import { on, state } from "./state.js";

const NAMES = { code: "Code", prose: "Prose", maths: "Maths", chat: "Chat", rewrite: "Rewrite", thinking: "Thinking", own: "Own" };

function radios(name, legend, choices, value, onchange) {
  return el(
    "fieldset",
    { class: "r-radios" },
    el("legend", {}, legend),
    ...choices.map(([key, label]) =>
      el("label", {}, el("input", { type: "radio", name, value: key, checked: key === value, onchange: () => onchange(key) }), el("span", {}, label)),
    ),
  );
}

const ways = (offers, free) => offers.filter((offer) => Boolean(offer.why_not) !== free);

export class Setup {
  // `act(values)` starts a race.
  constructor(form, found, act) {
    this.form = form;
    this.found = found;
    this.kind = "code";
    this.language = "en";
    this.busy = false;
    this.sides = [0, 1].map((side) => this.select(side));
    this.prompt = el("textarea", { class: "b-field r-prompt", rows: "3", "aria-label": "Prompt", maxlength: found.longest_prompt });
    this.prompt.addEventListener("input", () => this.chooseKind(this.isOurs() ? this.kind : "own"));
    this.rounds = el(
      "select",
      { class: "b-field r-rounds", onchange: () => this.draw() },
      el("option", { value: "" }, `until sure, at most ${found.most_rounds}`),
      ...found.rounds.map((number) => el("option", { value: number }, String(number))),
    );
    this.tokens = el("input", { class: "b-field r-tokens", type: "number", min: "2", max: found.most_tokens, step: "1", required: true, oninput: () => this.draw() });
    this.tokens.value = found.tokens;
    this.temperature = el("input", { class: "b-field r-temperature", type: "number", min: "0", max: "2", step: "0.05", required: true, oninput: () => this.draw() });
    this.temperature.value = "0";
    this.what = el("p", { class: "r-what b-muted" });
    this.wait = el("p", { class: "r-wait", hidden: true }, "An answer is running: the race waits until it has ended.");
    this.raceButton = el("button", { type: "submit", class: "b-button b-primary r-go" }, "Race");
    this.setButton = el("button", { type: "button", class: "b-button r-set", onclick: () => this.submit(true) }, "Run the whole set");
    const blocked = ways(found.offers, false);
    form.replaceChildren(
      el("h2", {}, "Race two ways to run the same model"),
      el("div", { class: "r-against" }, el("label", {}, el("span", {}, "A"), this.sides[0]), el("span", { class: "r-versus" }, "against"), el("label", {}, el("span", {}, "B"), this.sides[1])),
      blocked.length > 0 && this.blockedNode(blocked),
      this.kinds = radios("r-kind", "Text", [...found.kinds, "own"].map((kind) => [kind, NAMES[kind] ?? kind]), this.kind, (kind) => this.chooseKind(kind, true)),
      this.languages = radios("r-language", "Language", Object.entries(found.languages), this.language, (language) => { this.language = language; this.fill(); }),
      this.prompt,
      el(
        "details",
        { class: "r-more" },
        el("summary", {}, "Rounds, length, temperature"),
        el("div", { class: "r-fields" }, el("label", {}, "Rounds", this.rounds), el("label", {}, "Tokens at most", this.tokens), el("label", {}, "Temperature", this.temperature)),
      ),
      this.what,
      this.wait,
      el("div", { class: "r-buttons" }, this.raceButton, this.setButton),
    );
    form.addEventListener("submit", (event) => { event.preventDefault(); this.submit(false); });
    this.act = act;
    this.fill();
    on("status", () => this.draw());
  }

  select(side) {
    const { offers } = this.found;
    return el(
      "select",
      { class: "b-field", "aria-label": `Side ${"AB"[side]}`, onchange: () => this.draw() },
      ...offers.map((offer, at) =>
        el("option", { value: at, selected: at === this.found.default[side], disabled: Boolean(offer.why_not), title: offer.why_not }, offer.why_not ? `${offer.name} (not here)` : offer.name),
      ),
    );
  }

  // A disabled choice alone says nothing: the reasons, once each.
  blockedNode(blocked) {
    const reasons = new Map();
    for (const offer of blocked) reasons.set(offer.why_not, [...(reasons.get(offer.why_not) ?? []), offer.name]);
    return el(
      "details",
      { class: "r-more r-blocked" },
      el("summary", {}, blocked.length === 1 ? "1 other way cannot be had here" : `${blocked.length} other ways cannot be had here`),
      el("dl", {}, ...[...reasons].flatMap(([why, names]) => [el("dt", {}, names.join(", ")), el("dd", {}, why)])),
    );
  }

  ours() {
    return this.found.prompts[this.kind]?.[this.language];
  }

  isOurs() {
    return this.prompt.value === this.ours();
  }

  chooseKind(kind, fill = false) {
    this.kind = kind;
    for (const input of this.kinds.querySelectorAll("input")) input.checked = input.value === kind;
    if (fill) this.fill();
    this.draw();
  }

  fill() {
    const text = this.ours();
    if (text !== undefined) this.prompt.value = text;
    else if (document.activeElement !== this.prompt && Object.values(this.found.prompts).some((all) => Object.values(all).includes(this.prompt.value))) {
      this.prompt.value = "";
    }
    this.draw();
  }

  names() {
    return this.sides.map((select) => this.found.offers[select.value].name);
  }

  draw() {
    const [a, b] = this.names();
    const rounds = this.rounds.value ? `${this.rounds.value} ${this.rounds.value === "1" ? "round" : "rounds"}` : `up to ${this.found.most_rounds} rounds, fewer when the answer is sure`;
    const own = this.kind === "own";
    this.prompt.placeholder = "Write your own prompt";
    this.languages.disabled = own;
    const tokens = Number(this.tokens.value) || this.found.tokens;
    this.what.textContent =
      `${a} (A) and ${b} (B) answer the same prompt in turn, in the order A B B A: ${rounds}, at most ${count(tokens)} tokens each. ` +
      "Each engine is loaded and warmed up first; both stay loaded where memory allows, else one after the other, and you are told which. " +
      "Only one works at a time, and the chat waits.";
    const busy = state.status?.busy_with;
    this.wait.hidden = this.busy || busy !== "chat";
    this.raceButton.disabled = this.busy || !this.prompt.value.trim();
    this.setButton.disabled = this.busy;
  }

  running(busy) {
    this.busy = busy;
    this.form.hidden = busy;
    this.draw();
  }

  submit(set) {
    if (this.busy || !this.form.reportValidity()) return;
    if (!set && !this.prompt.value.trim()) return;
    const [a, b] = this.sides.map((select) => this.found.offers[select.value]);
    const way = ({ type, length }) => ({ type, length });
    const ours = this.kind !== "own" && this.isOurs();
    this.act({
      a: way(a),
      b: way(b),
      language: this.language,
      set,
      ...(set ? {} : ours ? { kind: this.kind } : { text: this.prompt.value }),
      rounds: this.rounds.value ? Number(this.rounds.value) : null,
      max_tokens: Number(this.tokens.value),
      temperature: Number(this.temperature.value),
    });
  }
}
