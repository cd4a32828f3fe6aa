// Brings the page to life once Gradio has drawn its frame.
import * as chat from "./chat.js";
import * as composer from "./composer.js";
import { complain } from "./dialog.js";
import { $, icon } from "./dom.js";
import * as empty from "./empty.js";
import * as first from "./first.js";
import * as lab from "./lab.js";
import * as machine from "./machine.js";
import * as race from "./race.js";
import * as scroll from "./scroll.js";
import * as settings from "./settings.js";
import * as sidebar from "./sidebar.js";
import * as status from "./status.js";

const PARTS = ["b-status", "b-chat", "b-settings", "b-settings-close"];

function drawn() {
  return new Promise((go) => {
    const look = () => {
      if (!PARTS.every($)) return false;
      go();
      return true;
    };
    if (look()) return;
    const watcher = new MutationObserver(() => look() && watcher.disconnect());
    watcher.observe(document.documentElement, { childList: true, subtree: true });
  });
}

const system = matchMedia("(prefers-color-scheme: dark)");

function scheme() {
  const chosen = localStorage.getItem("bonsai.theme");
  const dark = chosen ? chosen === "dark" : system.matches;
  document.documentElement.classList.toggle("b-dark", dark);
  document.body.classList.toggle("dark", dark);
  $("b-theme").replaceChildren(icon(dark ? "sun" : "moon"));
}

function startScheme() {
  scheme();
  // Gradio sets its own class when the system changes; ours comes after it.
  system.addEventListener("change", () => setTimeout(scheme));
  $("b-theme").addEventListener("click", () => {
    const dark = !document.documentElement.classList.contains("b-dark");
    if (dark === system.matches) localStorage.removeItem("bonsai.theme");
    else localStorage.setItem("bonsai.theme", dark ? "dark" : "light");
    scheme();
  });
}

async function main() {
  const values = settings.load().catch(complain);
  await drawn();
  startScheme();
  scroll.start();
  settings.start();
  chat.start();
  composer.start();
  sidebar.start();
  empty.start();
  first.start();
  machine.start();
  race.start();
  lab.start();
  status.start();
  await values;
  await chat.restore();
  document.documentElement.dataset.ready = "yes";
  if (matchMedia("(min-width: 861px)").matches) $("b-prompt").focus();
}

// Whatever goes wrong, the page is uncovered and says it.
main().catch(complain).finally(() => $("b-cover")?.remove());
