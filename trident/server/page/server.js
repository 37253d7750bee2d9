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

/** Return the server's answer. A token that the server wants, or a better one, is asked for first. */
async function send(path, options = {}) {
  for (;;) {
    const token = sessionStorage.getItem(KEY);
    const answer = await sendWith(token, path, options);
    if (answer.status !== 401 && answer.status !== 403) return answer;
    await askForToken(token, token === null ? "" : await reason(answer));
  }
}

function sendWith(token, path, options = {}) {
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  return fetch(path, { ...options, headers, cache: "no-store" });
}

/** Return why the server does not let a token in. */
async function reason(answer) {
  if (answer.status === 401) return "The server did not take this token.";
  const content = await answer.json().catch(() => ({}));
  return `This token does not open the page: ${content.error?.message ?? "it has few rights"}. Give one that may ask everything.`;
}

/** Return the JSON of an answer; with a body (a value, or JSON as text), POST it. Throws Refused. */
export async function ask(path, body) {
  const options = body === undefined ? {}
    : { method: "POST", body: typeof body === "string" ? body : json(body), headers: { "Content-Type": "application/json" } };
  let answer;
  try {
    answer = await send(path, options);
  } catch {
    throw new Refused(0, "NoAnswer", "The server does not answer.");
  }
  const content = await answer.text().then(parse).catch(() => ({}));
  if (answer.ok) return content;
  throw new Refused(answer.status, content.error?.type ?? `HTTP ${answer.status}`, content.error?.message ?? "");
}

/** Return the value of a JSON text. Whole numbers beyond 2^53 stay exact, as BigInt, where the browser can tell them. */
export const parse = (text) => JSON.parse(text, (_, value, context) => (
  typeof value === "number" && !Number.isSafeInteger(value) && /^-?[0-9]+$/.test(context?.source ?? "") ? BigInt(context.source) : value));

/** Return a value as JSON; the inverse of `parse`. */
export const json = (value) => JSON.stringify(value, (_, part) => (typeof part === "bigint" ? JSON.rawJSON(String(part)) : part));

/** Ask the person for a token, once for all requests that wait for one. It is kept only when the server has taken it. */
function askForToken(wrong, why) {
  if (sessionStorage.getItem(KEY) !== wrong) return Promise.resolve(); // another request has asked meanwhile
  asking ??= askUntilTaken(why).finally(() => { asking = null; });
  return asking;
}

async function askUntilTaken(why) {
  for (;;) {
    const token = await typed(why);
    if (!/^[\x20-\x7e]+$/.test(token)) {
      why = "This is no token: it has a character that cannot be sent, perhaps one that came along when it was copied.";
      continue;
    }
    const answer = await sendWith(token, "/status");
    if (answer.status !== 401 && answer.status !== 403) {
      sessionStorage.setItem(KEY, token);
      return;
    }
    why = await reason(answer);
  }
}

/** Return what the person types into the dialog. */
function typed(why) {
  const dialog = document.getElementById("token-dialog");
  const field = document.getElementById("token");
  const wrong = document.getElementById("token-wrong");
  wrong.textContent = why;
  wrong.hidden = !why;
  field.value = "";
  return new Promise((resolve) => {
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      resolve(field.value.trim());
      field.value = "";
    }, { once: true });
    dialog.showModal();
  });
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
