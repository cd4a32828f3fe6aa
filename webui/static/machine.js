// The Machine tab: what was found, what runs and why.
import { call } from "./api.js";
import { complain, confirmed, toast } from "./dialog.js";
import { $, copyText, el } from "./dom.js";
import { learnedSections, refreshLearned } from "./lab_learned.js";
import { on, tell } from "./state.js";
import * as status from "./status.js";
import * as trouble from "./trouble.js";

const quote = (word) => (/^[\w@%+=:,./\\-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

function table(rows, headings, names = false) {
  return el(
    "div",
    { class: "b-table" },
    el(
      "table",
      { class: names ? "b-names" : null },
      headings && el("thead", {}, el("tr", {}, ...headings.map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, ...rows.map(([first, ...rest]) => el("tr", {}, el("th", { scope: "row" }, first), ...rest.map((text) => el("td", {}, text))))),
    ),
  );
}

function section(title, ...content) {
  return el("section", { class: "b-card" }, el("h2", {}, title), ...content.filter(Boolean));
}

function command(plan) {
  const line = [...Object.entries(plan.env).map(([name, value]) => `${name}=${quote(value)}`), ...plan.argv.map(quote)].join(" ");
  // Flags stay whole where a line ends; only long paths may be broken.
  const words = line.split(" ").flatMap((word) => [el("span", { class: word.length > 30 ? "b-path" : null }, word), " "]);
  return el(
    "div",
    { class: "b-code" },
    el(
      "div",
      { class: "b-code-head" },
      el("span", {}, "command line"),
      el("button", { type: "button", class: "b-copy-code", onclick: () => copyText(line).then(() => toast("Copied"), complain) }, "Copy"),
    ),
    el("pre", { tabindex: "0", class: "b-wrap b-command" }, el("code", {}, ...words)),
  );
}

let closed = false;

async function quit() {
  const sure = await confirmed("Quit Bonsai?", "The engine stops and this page goes away. Conversations are kept.", "Quit", true);
  if (!sure) return;
  closed = true;
  status.leave();
  try {
    await call("POST", "quit", {});
    $("b-machine").replaceChildren(section("Bonsai has been closed", el("p", {}, "You can close this tab. Start Bonsai again to go on.")));
  } catch (problem) {
    closed = false;
    status.connectAgain();
    complain(problem);
  }
}

function draw(found, learned) {
  const { plan, status: now } = found;
  const rows = (list) => list.map((row) => [row.name, row.value, row.source]);
  const warnings = [...new Set([...now.warnings, ...found.notices, ...(plan?.warnings ?? [])])];
  const log = el("pre", { class: "b-log-text", tabindex: "0", "aria-label": "Last lines of the engine's log" }, found.log);
  $("b-machine").replaceChildren(
    section(
      "Now",
      now.message !== now.error && el("p", {}, now.message || now.phase),
      now.error && el("p", { class: "b-bad" }, `${now.error} ${now.remedy}`.trim()),
      now.steps.length > 0 && el("details", {}, el("summary", {}, "What was tried"), el("ol", {}, ...now.steps.map((text) => el("li", {}, text)))),
      warnings.length > 0 && el("ul", { class: "b-warnings" }, ...warnings.map((text) => el("li", {}, text))),
      now.phase === "failed" && trouble.ways(now),
    ),
    plan && section("What runs", table(plan.rows.map((row) => [row.name, row.value, row.source]), ["Part", "What", "Why, or where"])),
    ...learnedSections(learned, () => refresh()).map(([title, content]) => section(title, ...content)),
    plan && section("The engine's command line", command(plan), table(plan.reasons.map((reason) => [reason.part, reason.why]), ["Part", "Why"], true)),
    found.machine.length > 0 && section("This machine", table(rows(found.machine), ["What", "Found", "How"])),
    found.settings.length > 0 && section("Settings", table(rows(found.settings), ["Setting", "Value", "From"], true)),
    section(
      "Log of the engine",
      now.log_path ? el("p", { class: "b-muted" }, now.log_path) : null,
      found.log ? log : el("p", { class: "b-muted" }, "Nothing yet."),
      el("div", { class: "b-acts-row" }, trouble.copyButton("Copy log", found.log), now.phase !== "failed" && trouble.reportButton()),
    ),
    section(
      "Bonsai",
      el("p", { class: "b-muted" }, `Version ${found.version}. Closing this tab leaves Bonsai running; this ends it:`),
      el("button", { type: "button", class: "b-button b-danger", onclick: quit }, "Quit Bonsai"),
    ),
  );
  log.scrollTop = log.scrollHeight;
}

const AGAIN_MS = 1000; // until it is asked again, while some of the machine is still being looked for
let timer = 0;

const onShow = () => Boolean($("b-machine")?.offsetParent);

async function refresh() {
  try {
    const [found, learned] = await Promise.all([call("GET", "machine"), refreshLearned().catch((problem) => { complain(problem); return {}; })]);
    if (closed) return;
    draw(found, learned);
    tell("machine");
    clearTimeout(timer);
    if (found.looking && !document.hidden) timer = setTimeout(() => onShow() && !closed && refresh(), AGAIN_MS);
  } catch (problem) {
    complain(problem);
  }
}

let shown = false;

// Gradio makes the tab's content when it is first opened, a moment after it is chosen.
async function look() {
  for (let frames = 0; frames < 20; frames += 1) {
    await new Promise(requestAnimationFrame);
    if (onShow() !== shown) break;
  }
  shown = onShow();
  if (shown && !closed) await refresh();
}

export function start() {
  // Only what is on show is asked for: when a tab is chosen, and when the engine's state changes meanwhile.
  for (const kind of ["click", "keyup"]) {
    document.addEventListener(kind, (event) => event.target.closest?.("#b-tabs > .tab-wrapper") && look());
  }
  for (const news of ["status", "choice"]) on(news, () => onShow() && !closed && refresh());
  document.addEventListener("visibilitychange", () => !document.hidden && onShow() && !closed && refresh());
}
