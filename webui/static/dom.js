// Small helpers to build and find elements. Text always goes in as text; only `html` takes markup of ours.

export const $ = (id) => document.getElementById(id);

export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.className = value;
    else if (name === "html") node.innerHTML = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(node.dataset, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const PATHS = {
  plus: "M12 5v14M5 12h14",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  up: "M12 19V5M6 11l6-6 6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  copy: "M9 9h10v10H9zM5 15V5h10",
  check: "M5 13l4 4L19 7",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10 11v5M14 11v5",
  again: "M20 11a8 8 0 1 0-2.300 6.300M20 5v6h-6",
  sliders: "M4 8h9M17 8h3M4 16h3M11 16h9M15 5.500v5M9 13.500v5",
  moon: "M20 14.500A8 8 0 1 1 9.500 4a6.500 6.500 0 0 0 10.500 10.500z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M4.900 4.900l1.400 1.400M17.700 17.700l1.400 1.400M2 12h2M20 12h2M4.900 19.100l1.400-1.400M17.700 6.300l1.400-1.400",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  warn: "M12 4L2.500 20h19zM12 10v4.500M12 17.500h.01",
  import: "M12 4v11M7 10l5 5 5-5M5 20h14",
  bolt: "M13 3L5 14h6l-1 7 8-11h-6z",
  bulb: "M9 18h6M10 21h4M12 3a6 6 0 0 0-3.500 10.900c.6.500 1 1.200 1 2.100h5c0-.9.400-1.600 1-2.100A6 6 0 0 0 12 3z",
  tint: "M12 3s6 6.500 6 11a6 6 0 0 1-12 0c0-4.500 6-11 6-11z",
};

export function icon(name) {
  const heavy = name === "more" ? 3 : name === "up" ? 2.4 : 1.8;
  return el("span", {
    class: "b-i",
    "aria-hidden": "true",
    html: name === "stop"
      ? '<svg viewBox="0 0 24 24"><rect x="7" y="7" width="10" height="10" rx="2" fill="currentColor"/></svg>'
      : `<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="${heavy}" stroke-linecap="round" stroke-linejoin="round"><path d="${PATHS[name]}"/></svg>`,
  });
}

export function button(label, name, onclick, props = {}) {
  return el("button", { type: "button", class: "b-icon", "aria-label": label, title: label, onclick, ...props }, icon(name));
}

let said = 0;
export function announce(text) {
  // A different text each time, or a screen reader stays silent on repetition.
  said += 1;
  const place = $("b-announce");
  if (place) place.textContent = text + (said % 2 ? "" : "\u00a0");
}

export const count = (n) => n.toLocaleString("en-US");

export const seconds = (s) => (s < 1 ? s.toFixed(2) : s < 60 ? s.toFixed(1) : s.toFixed(0)) + " s";

export async function copyText(text) {
  if (navigator.clipboard && window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = el("textarea", { class: "b-hidden" });
  area.value = text;
  // Outside an open dialog nothing can be selected.
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
