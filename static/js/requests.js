// Requests to the server: a refusal is a sentence, a lost connection is retried, and nothing is sent twice, because every message
// has an id that was chosen here.

const TRIES = [0, 700, 2000, 5000]; // ms to wait before each try
const PATIENCE = 60_000; // ms to wait for the answer to a form without files

export class Refused extends Error {
  /** `field` is the field that it is about, if any. */
  constructor(sentence, status, field = "") {
    super(sentence);
    Object.assign(this, { status, field });
  }
}

/** The server did not answer; the same form may be sent again. */
export class Unreachable extends Error {
  constructor(then = "Try again when you are back online.") {
    super(`The server cannot be reached. ${then}`);
  }
}

/** `fields`: of the form, by name, or the form itself. `then`: the text for a lost connection. */
export function post(address, fields, then) {
  const form = fields instanceof FormData ? fields : formOf(fields);
  return retried(() => postOnce(address, form), then);
}

async function retried(send, then) {
  for (const wait of TRIES) {
    await new Promise((done) => setTimeout(done, wait));
    try {
      return await send();
    } catch (problem) {
      if (!(problem instanceof Unreachable)) throw problem;
    }
  }
  throw new Unreachable(then);
}

function formOf(fields) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  return form;
}

/** The answer. Throws Refused, or Unreachable for a lost connection. */
export async function postOnce(address, form) {
  const hasFiles = [...form.values()].some((value) => value instanceof File);
  const signal = hasFiles ? undefined : AbortSignal.timeout(PATIENCE);
  const answer = await request(address, { method: "POST", body: form, signal });
  const said = await answer.json().catch(() => null);
  if (answer.ok && said) return said;
  if (answer.ok && !answer.redirected) throw new Unreachable(); // the connection was lost in the middle of the answer
  throw new Refused(said?.error?.message ?? said?.error ?? SENTENCES[answer.status] ?? SENTENCES.other, answer.status, said?.field);
}

/** The answer to a request with the token, which is renewed if it was too old. Throws Unreachable, Refused. */
export async function request(address, options) {
  const send = () => reached(address, { ...options, headers: { ...options.headers, "X-CSRFToken": token() } });
  const answer = await send();
  if (answer.status !== 403) return answer;
  await renewToken();
  return send();
}

async function reached(address, options) {
  const answer = await fetch(address, options).catch((problem) => {
    if (options.signal?.aborted && problem.name === "AbortError") throw problem;
    throw new Unreachable();
  });
  const isProxy = answer.status >= 502 && answer.status <= 504 && !answer.headers.get("Content-Type")?.includes("json");
  if (isProxy) throw new Unreachable();
  return answer;
}

const SENTENCES = {
  403: "This page is out of date. Copy what you wrote, then reload the page.",
  413: "This is too large. Send fewer or smaller files.",
  other: "The server could not process this. Wait a moment, then try again.",
};

/** The token of the cookie; every signed-in page has it in its menu. */
export function token() {
  return document.querySelector("[name=csrfmiddlewaretoken]").value;
}

/** The current token: a page that was kept, or is older than the sign-in, has an old one. Throws Refused, Unreachable. */
export async function renewToken() {
  const now = await (await reached("/token", { cache: "no-store" })).json();
  if (now.user !== document.body.dataset.user) {
    throw new Refused(now.user ? "Another person is signed in here now. Reload the page." : "You are signed out. Sign in again; your text is kept here.", 401);
  }
  for (const field of document.querySelectorAll("[name=csrfmiddlewaretoken]")) field.value = now.token;
}

/**
 * `api("POST", "/sessions/…/archive", {…})` returns the answer (null for none). Throws Refused (with `status` and `problem`) or
 * Unreachable. `key` is the Idempotency-Key of a request that may be repeated; `keepalive` sends it even if the page is left; a
 * `body` of bytes is sent unchanged.
 */
export async function api(method, path, body = undefined, { key = "", headers = {}, signal = undefined, keepalive = false } = {}) {
  const isBytes = body instanceof Blob;
  const type = isBytes ? "application/octet-stream" : "application/json";
  const answer = await request(`/api/v1${path}`, {
    method,
    signal,
    keepalive,
    headers: { Accept: "application/json", ...(body !== undefined && { "Content-Type": type }), ...(key && { "Idempotency-Key": key }), ...headers },
    body: isBytes || body === undefined ? body : JSON.stringify(body),
  });
  const said = answer.status === 204 ? null : await answer.json().catch(() => null);
  if (answer.ok) return said;
  throw Object.assign(new Refused(said?.detail ?? "The server could not do this. Wait a moment, then try again.", answer.status), {
    problem: said,
  });
}

/** `api` for what may be done twice: again after a lost connection. `then`: the text if it stays lost. */
export function persist(method, path, body, then) {
  return retried(() => api(method, path, body, { signal: AbortSignal.timeout(PATIENCE) }), then);
}

/** An id for a message. `crypto.randomUUID` is missing on pages without TLS. */
export function uuid() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const random = crypto.getRandomValues(new Uint8Array(16));
  random[6] = (random[6] & 0x0f) | 0x40;
  random[8] = (random[8] & 0x3f) | 0x80;
  const hex = [...random].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
