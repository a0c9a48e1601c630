// Sending forms to the server: a refusal is a sentence, a lost line is tried again, and nothing is said twice, because
// every message carries the id that was chosen for it here.

const TRIES = [0, 700, 2000, 5000]; // ms to wait before each try
const PATIENCE = 60_000; // ms that an answer may take to a form without files

export class Refused extends Error {
  /** `field` is what it is about, where it is about a field. */
  constructor(sentence, status, field = "") {
    super(sentence);
    Object.assign(this, { status, field });
  }
}

/** The server did not answer at all; the same form may be sent again. */
export class Unreachable extends Error {
  constructor(then = "Try again when the line is back.") {
    super(`The server cannot be reached. ${then}`);
  }
}

/** `then`: what is said of a lost line. */
export async function post(address, form, then) {
  for (const wait of TRIES) {
    await new Promise((done) => setTimeout(done, wait));
    try {
      return await postOnce(address, form);
    } catch (problem) {
      if (!(problem instanceof Unreachable)) throw problem;
    }
  }
  throw new Unreachable(then);
}

/** What was answered. Throws Refused, or Unreachable for a line that is lost. */
export async function postOnce(address, form) {
  const hasFiles = [...form.values()].some((value) => value instanceof File);
  const signal = hasFiles ? undefined : AbortSignal.timeout(PATIENCE);
  const answer = await asked(address, { method: "POST", body: form, signal });
  const said = await answer.json().catch(() => null);
  if (answer.ok && said) return said;
  if (answer.ok && !answer.redirected) throw new Unreachable(); // the line was lost in the middle of the answer
  throw new Refused(said?.error?.message ?? said?.error ?? SENTENCES[answer.status] ?? SENTENCES.other, answer.status, said?.field);
}

/** The answer to what is sent with the token, which is renewed if it was too old. Throws Unreachable, Refused. */
export async function asked(address, options) {
  const send = () => reached(address, { ...options, headers: { ...options.headers, "X-CSRFToken": token() } });
  const answer = await send();
  if (answer.status !== 403) return answer;
  await renew();
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
  403: "This page is out of date. Load it again; copy what you wrote first.",
  413: "That is too large to be sent at once. Send fewer or smaller files.",
  other: "The server could not take this. Wait a moment, then try again.",
};

/** The token of the cookie; every signed-in page has it in its menu. */
export function token() {
  return document.querySelector("[name=csrfmiddlewaretoken]").value;
}

/** The token as it is by now: a page that was kept, or is older than the sign-in, has another. Throws Refused, Unreachable. */
export async function renew() {
  const now = await (await reached("/token", { cache: "no-store" })).json();
  if (now.user !== document.body.dataset.user) {
    throw new Refused(now.user ? "Somebody else is signed in here by now. Load the page again." : "You are signed out. Sign in again; what you wrote stays here.", 401);
  }
  for (const field of document.querySelectorAll("[name=csrfmiddlewaretoken]")) field.value = now.token;
}
