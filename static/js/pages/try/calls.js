// Calls the agent as any program does: requests in the form of each A2A version, sent with a token for this agent only and without
// the cookie; answers are shown unchanged.
import { token as csrf, uuid } from "../../requests.js";

/** `takes` is the form's input: words, a task, or nothing. `old` is the method's name in 0.3, which lacks some methods. */
export const OPERATIONS = [
  { name: "SendMessage", old: "message/send", takes: "words", hint: "Sends a message and waits for the answer." },
  { name: "SendStreamingMessage", old: "message/stream", takes: "words", hint: "Sends a message and streams the answer." },
  { name: "GetTask", old: "tasks/get", takes: "task", hint: "Shows the current state of a task." },
  { name: "ListTasks", old: "", takes: "nothing", hint: "Lists your tasks with this agent, newest first." },
  { name: "CancelTask", old: "tasks/cancel", takes: "task", hint: "Stops a running task." },
  { name: "SubscribeToTask", old: "tasks/resubscribe", takes: "task", hint: "Streams the events of a running task." },
];

export const OLD = "0.3";

let numbers = 0;
const made = new Set(); // message ids that were chosen here

/** The form's values as a JSON-RPC request. */
export function requestOf(operation, version, { words, task }) {
  const method = version === OLD ? operation.old : operation.name;
  return { jsonrpc: "2.0", id: ++numbers, method, params: PARAMS[operation.takes](version === OLD, words, task) };
}

const PARAMS = {
  words: (isOld, text, taskId) => ({
    message: {
      ...(isOld ? { kind: "message" } : {}),
      messageId: newId(),
      role: isOld ? "user" : "ROLE_USER",
      parts: [isOld ? { kind: "text", text } : { text }],
      ...(taskId ? { taskId } : {}),
    },
  }),
  task: (isOld, words, id) => ({ id }),
  nothing: () => ({ pageSize: 10 }),
};

function newId() {
  const id = uuid();
  made.add(id);
  return id;
}

/** The next request, with unused ids. Keeps a message id that somebody wrote by hand. */
export function saidAnew(request) {
  const message = request.params?.message;
  request.id = ++numbers;
  if (made.has(message?.messageId)) message.messageId = newId();
  return request;
}

/** The task in an answer or event: {id, hasEnded}; null without a task. */
export function taskIn(said) {
  const result = said?.result;
  const about = result?.task ?? result?.statusUpdate ?? result?.artifactUpdate ?? result;
  const id = about?.taskId ?? (about?.status ? about.id : undefined);
  if (typeof id !== "string") return null;
  const state = String(about.status?.state ?? "");
  return { id, hasEnded: /completed|failed|canceled|rejected/i.test(state) };
}

/** A short summary of an event or answer. */
export function inWords(said) {
  if (said?.error) return `error ${said.error.code ?? ""}: ${said.error.message ?? ""}`;
  const result = said?.result ?? {};
  const [kind] = Object.keys(result).filter((name) => ["task", "message", "statusUpdate", "artifactUpdate"].includes(name));
  const about = kind ? result[kind] : result;
  const state = typeof about.status?.state === "string" ? about.status.state.replace("TASK_STATE_", "").toLowerCase().replaceAll("_", "-") : "";
  const text = [about.status?.message?.parts, about.parts, about.artifact?.parts].flatMap((parts) => (Array.isArray(parts) ? parts : []))
    .map((part) => part?.text).filter((one) => typeof one === "string").join(" ");
  return [kind ?? result.kind ?? "result", state, text && `“${text.slice(0, 80)}${text.length > 80 ? "…" : ""}”`].filter(Boolean).join(" · ");
}

const SPARE = 30_000; // ms: a token that ends sooner is renewed before use

export class NoToken extends Error {}

export class Token {
  constructor(address) {
    Object.assign(this, { address, text: "", expires: 0 });
  }

  /** The token's text; a new token if the old one is about to end. Throws NoToken with a sentence. */
  async get() {
    if (this.expires - Date.now() > SPARE) return this.text;
    let answer;
    try {
      answer = await fetch(this.address, { method: "POST", headers: { "X-CSRFToken": csrf() } });
    } catch {
      throw new NoToken("The server cannot be reached. Nothing was sent. Try again.");
    }
    if (answer.redirected || answer.status === 403) throw new NoToken("You are signed out. Reload this page and sign in.");
    if (!answer.ok) throw new NoToken("This agent no longer exists, or you cannot use it.");
    const given = await answer.json();
    this.text = given.token;
    this.expires = Date.parse(given.expiresAt);
    return this.text;
  }
}

/** How a token is shown: it cannot be copied from the screen. */
export function masked(text) {
  return `${text.slice(0, 10)}…${"•".repeat(8)}`;
}

/**
 * Send a request, and report the answer to `heard`: `response(answer)`, then `body(text)` or an `event({id, event, data})` for
 * each event of a stream. Ends when all has come; throws if the connection broke or `signal` aborted.
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
      const event = readEvent(frame);
      if (event) yield event;
    }
  }
}

/** One server-sent event; null for a comment, which keeps the connection open. */
function readEvent(frame) {
  const event = { id: "", event: "", data: null };
  for (const line of frame.split(/\r?\n/)) {
    const [, name, value] = line.match(/^(\w+): ?(.*)$/s) ?? [];
    if (name === "data") event.data = event.data === null ? value : `${event.data}\n${value}`;
    else if (name === "id" || name === "event") event[name] = value;
  }
  return event.data === null ? null : event;
}

/** The same call for a shell, with a placeholder for the caller's key. */
export function asCurl(endpoint, headers, body) {
  const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  const said = { ...headers, Authorization: "Bearer YOUR-KEY" };
  const lines = Object.entries(said).map(([name, value]) => `  -H ${quoted(`${name}: ${value}`)}`);
  return [`curl -sN ${quoted(endpoint)}`, ...lines, `  -d ${quoted(body)}`].join(" \\\n");
}
