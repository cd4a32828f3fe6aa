// Fetching in words: sizes, rates, times left, and what a file is at. Sizes read as in launcher/amounts.py.

const UNITS = [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]];
const unitOf = (bytes) => UNITS.find(([, of]) => bytes >= of) ?? ["bytes", 1];

function figure(bytes, [name, of], fine) {
  const value = bytes / of;
  const digits = name === "GB" ? (fine ? 2 : value < 100 ? 1 : 0) : name === "MB" && value < 10 ? 1 : 0;
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// 7165121600 -> "7.2 GB"
export const size = (bytes) => (bytes === null ? "size not known yet" : `${figure(bytes, unitOf(bytes))} ${unitOf(bytes)[0]}`);

// "1.24 of 7.17 GB": both in the larger one's unit, so that nothing jumps.
export function soFar(have, total) {
  if (total === null) return size(have);
  const unit = unitOf(total);
  return `${figure(have, unit, true)} of ${figure(total, unit, true)} ${unit[0]}`;
}

export const rate = (bytes) => (bytes === null ? "" : `${size(bytes)}/s`);

export function left(s) {
  if (s === null) return "";
  if (s < 10) return "a few seconds left";
  if (s < 90) return `about ${Math.round(s / 5) * 5} s left`;
  const minutes = Math.round(s / 60);
  if (minutes < 60) return `about ${minutes} min left`;
  return `about ${Math.floor(minutes / 60)} h ${minutes % 60} min left`;
}

export function percent(have, total) {
  if (!total) return null;
  // 100 is said when it is so.
  return have >= total ? 100 : Math.min(99, Math.floor((100 * have) / total));
}

export const joined = (...parts) => parts.filter(Boolean).join(" · ");

// What is read at this moment, and how far that is: "Checking x.gguf: 41 % · 1.2 GB/s · a few seconds left".
export function checkingText(now) {
  const item = now.items.find((it) => it.state === "checking") ?? now.items[0];
  if (!item) return "Checking what is here already";
  const done = percent(item.have, item.total);
  return joined(`Checking ${item.name}${done === null ? "" : `: ${done} %`}`, rate(item.rate), left(item.left_s), item.note);
}

const LATER = { unpacking: "Unpacking", proving: "Trying it once on this machine" };

// What stands beside a file's bar. `phase` is that of the whole.
export function itemText(item, phase) {
  const note = item.note;
  if (item.state === "done") return joined(item.total !== null && size(item.total), item.in_place ? "was here already" : "checked", note);
  if (phase === "checking") return { failed: "Not the right file", found: joined("Waiting", size(item.total)) }[item.state] ?? joined(soFar(item.have, item.total), rate(item.rate), left(item.left_s), note);
  if (item.state === "failed") return joined("Not complete", item.total && soFar(item.have, item.total), note);
  if (phase === "running" && LATER[item.state]) return joined(LATER[item.state], note);
  if (phase === "running" && item.state === "checking") return joined("Checking what is here already", soFar(item.have, item.total), note);
  if (item.state === "running" && phase === "running") {
    return joined(soFar(item.have, item.total), rate(item.rate), left(item.left_s), note);
  }
  const begun = item.state !== "waiting" || item.have > 0;
  const word = begun && phase === "paused" ? "Paused" : begun && phase === "failed" ? "Stopped" : "Waiting";
  return joined(word, item.have ? soFar(item.have, item.total) : size(item.total), note);
}

// What a file's size is before anybody agreed to fetch it.
export function offerText(item) {
  if (item.state === "found") return joined(size(item.total), "here, not checked yet");
  if (item.in_place || item.state === "done") return joined(item.total !== null && size(item.total), "here already");
  if (item.have) return `${size(item.total)}, ${size(item.have)} of it here already`;
  return size(item.total);
}

export function totalText(now) {
  const moves = ["checking", "running"].includes(now.phase);
  return joined(soFar(now.have, now.total), moves && rate(now.rate), moves && left(now.left_s));
}
