// What this tab knows, and who wants to hear of changes.

export const state = {
  conversation: null, // {id, title, turns} as the server gives it; null: a new chat
  runs: new Set(), // answers that are running in this tab
  settings: {},
  status: null,
  fetch: null, // how fetching stands; null: nothing can be fetched here
  leaveOut: new Set(), // conversations in which old messages may be left out
};

const listeners = new Map();

export function on(name, listener) {
  if (!listeners.has(name)) listeners.set(name, []);
  listeners.get(name).push(listener);
}

export function tell(name, value) {
  for (const listener of listeners.get(name) ?? []) listener(value);
}

// The answer running in the conversation on show, if any. One whose conversation is not known yet belongs to a new chat.
export function currentRun() {
  const id = state.conversation?.id ?? null;
  for (const run of state.runs) if (run.conversation === id) return run;
  return null;
}
