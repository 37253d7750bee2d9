// How the page asks its server.

const KEY = "trident-token";
let asking = null;

/** An answer that is an error: its type and message as the server gave them. */
export class Refused extends Error {
  constructor(status, type, message) {
    super(message);
    this.status = status;
    this.type = type;
  }
}

/** Return the server's answer. A token that the server wants is asked for first. */
async function send(path, options = {}) {
  for (;;) {
    const token = sessionStorage.getItem(KEY);
    const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const answer = await fetch(path, { ...options, headers, cache: "no-store" });
    if (answer.status !== 401) return answer;
    await askForToken(token);
  }
}

/** Return the JSON of an answer; with a body, POST it. Throws Refused. */
export async function ask(path, body) {
  const options = body === undefined ? {}
    : { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  let answer;
  try {
    answer = await send(path, options);
  } catch (error) {
    throw new Refused(0, "NoAnswer", "The server does not answer.");
  }
  const content = await answer.json().catch(() => ({}));
  if (answer.ok) return content;
  throw new Refused(answer.status, content.error?.type ?? `HTTP ${answer.status}`, content.error?.message ?? "");
}

/** Ask the person for a token, once for all requests that wait for one. */
function askForToken(wrong) {
  if (sessionStorage.getItem(KEY) !== wrong) return Promise.resolve(); // another request has asked meanwhile
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("token-dialog");
    const field = document.getElementById("token");
    document.getElementById("token-wrong").hidden = !wrong;
    field.value = "";
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEY, field.value.trim());
      field.value = "";
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

/**
 * Follow the server's events for ever, and connect again when the connection ends. EventSource would be the browser's own
 * way, but sends no token.
 */
export async function follow(heard, connected) {
  let last = "";
  for (let pause = 500; ; pause = Math.min(pause * 2, 5000)) {
    try {
      const answer = await send("/events", { headers: last ? { "Last-Event-ID": last } : {} });
      if (!answer.ok) throw new Error(answer.statusText);
      connected(true);
      pause = 500;
      for await (const piece of pieces(answer.body)) {
        if (piece.id) last = piece.id;
        if (piece.event) heard(piece.event, JSON.parse(piece.data));
      }
    } catch {
      // The pause below, then the next try: `connected` says so meanwhile.
    }
    connected(false);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

async function* pieces(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const piece = {};
      for (const line of part.split("\n")) {
        const at = line.indexOf(": ");
        if (at > 0) piece[line.slice(0, at)] = line.slice(at + 2);
      }
      yield piece;
    }
  }
}
