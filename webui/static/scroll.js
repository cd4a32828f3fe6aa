// Follows the answer as long as the person is at the end, and leaves them alone when they read further up.
import { $, icon } from "./dom.js";

let following = true;
let box = null;

// A new chat is read from its beginning.
const empty = () => !$("b-log").childElementCount;
const atEnd = () => box.scrollHeight - box.scrollTop - box.clientHeight < 60;

export function start() {
  box = $("b-scroll");
  $("b-down").append(icon("down"));
  $("b-down").addEventListener("click", jump);
  let before = 0;
  box.addEventListener("scroll", () => {
    // Only moving up lets go: text that grows below does not.
    const up = box.scrollTop < before - 1;
    before = box.scrollTop;
    if (up && !atEnd() && !empty()) following = false;
    else if (atEnd()) following = true;
    $("b-down").hidden = following || atEnd() || empty();
  }, { passive: true });
}

export function follow() {
  if (empty()) return;
  if (following) box.scrollTop = box.scrollHeight;
}

export function stick() {
  following = true;
  follow();
}

export function jump() {
  if (empty()) box.scrollTop = 0;
  stick();
  // Messages above may get their real height only now (content-visibility).
  requestAnimationFrame(follow);
}
