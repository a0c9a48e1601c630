// Calling the agent: with a token for it alone and without the cookie, and reading what comes, as it comes.
import { token as csrf } from "../post.js";

const SPARE = 30_000; // ms: a token that ends sooner is renewed before it is used

export class NoToken extends Error {}

export class Token {
  constructor(address) {
    Object.assign(this, { address, text: "", expires: 0 });
  }

  /** The token's text; a new one where there is none that lasts. Throws NoToken with a sentence. */
  async get() {
    if (this.expires - Date.now() > SPARE) return this.text;
    let answer;
    try {
      answer = await fetch(this.address, { method: "POST", headers: { "X-CSRFToken": csrf() } });
    } catch {
      throw new NoToken("The server cannot be reached. Nothing was sent; try again.");
    }
    if (answer.redirected || answer.status === 403) throw new NoToken("You are signed out. Load this page again, and sign in.");
    if (!answer.ok) throw new NoToken("There is no such agent any more, or you may not use it.");
    const given = await answer.json();
    this.text = given.token;
    this.expires = Date.parse(given.expiresAt);
    return this.text;
  }
}

/** How a token is shown: nobody who looks over a shoulder can use it. */
export function masked(text) {
  return `${text.slice(0, 10)}…${"•".repeat(8)}`;
}

/**
 * Send a request, and tell `heard` what comes: `response(answer)`, then `body(text)` or an `event({id, event, data})` for each
 * of a stream. Ends when all of it came; throws where the line broke or `signal` aborted.
 */
export async function call(path, { headers, body, signal, heard }) {
  const answer = await fetch(path, { method: "POST", headers, body, signal, credentials: "omit", cache: "no-store" });
  heard.response(answer);
  if (!answer.headers.get("Content-Type")?.startsWith("text/event-stream")) return heard.body(await answer.text());
  for await (const event of eventsOf(answer.body)) heard.event(event);
}

async function* eventsOf(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const frames = (waiting + value).split(/\r?\n\r?\n/);
    waiting = frames.pop();
    for (const frame of frames) {
      const event = read(frame);
      if (event) yield event;
    }
  }
}

/** One server-sent event; null for what is a comment alone, by which the server keeps the line open. */
function read(frame) {
  const event = { id: "", event: "", data: null };
  for (const line of frame.split(/\r?\n/)) {
    const [, name, value] = line.match(/^(\w+): ?(.*)$/s) ?? [];
    if (name === "data") event.data = event.data === null ? value : `${event.data}\n${value}`;
    else if (name === "id" || name === "event") event[name] = value;
  }
  return event.data === null ? null : event;
}

/** The same call for a shell, with a placeholder where the caller's key goes. */
export function asCurl(endpoint, headers, body) {
  const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  const said = { ...headers, Authorization: "Bearer YOUR-KEY" };
  const lines = Object.entries(said).map(([name, value]) => `  -H ${quoted(`${name}: ${value}`)}`);
  return [`curl -sN ${quoted(endpoint)}`, ...lines, `  -d ${quoted(body)}`].join(" \\\n");
}
