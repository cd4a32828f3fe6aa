// Our routes. The cookie of the page carries the run's token; errors come as {error, remedy}.

export class Problem extends Error {
  constructor(what, remedy = "") {
    super(`${what} ${remedy}`.trim());
  }
}

async function failed(response) {
  let told = {};
  try {
    told = await response.json();
  } catch {
    told = {};
  }
  if (told.error) return new Problem(told.error, told.remedy);
  if (response.status === 403) return new Problem("This page belongs to an earlier run of Bonsai.", "Reload the page.");
  return new Problem(`The page's server answered with status ${response.status}.`, "Reload the page.");
}

const unreachable = () => new Problem("Bonsai does not answer.", "It may have been closed: start it again.");

export async function call(method, path, body, raw = false) {
  let response;
  try {
    response = await fetch("/bonsai/" + path, {
      method,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : raw ? body : JSON.stringify(body),
    });
  } catch {
    throw unreachable();
  }
  if (!response.ok) throw await failed(response);
  return response.json();
}

// Frames of a streamed answer, one by one. Rejects with a Problem, or with an AbortError after `signal`.
export async function stream(path, body, signal, onFrame) {
  let response;
  try {
    response = await fetch("/bonsai/" + path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
  } catch (problem) {
    throw signal.aborted ? problem : unreachable();
  }
  if (!response.ok) throw await failed(response);
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let held = "";
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (problem) {
      throw signal.aborted ? problem : unreachable();
    }
    if (part.done) return;
    held += decoder.decode(part.value, { stream: true });
    const events = held.split("\n\n");
    held = events.pop();
    for (const event of events) onFrame(JSON.parse(event.slice(6)));
  }
}
