// Sending forms to the server: a refusal is a sentence, a lost line is tried again, and nothing is said twice, because
// every message carries the id that was chosen for it here.

const TRIES = [0, 700, 2000, 5000]; // ms to wait before each try

export class Refused extends Error {
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }
}

/** The server did not answer at all; the same form may be sent again. */
export class Unreachable extends Error {
  message = "The server cannot be reached. What you wrote is kept here.";
}

export async function post(address, form) {
  for (const wait of TRIES) {
    await new Promise((done) => setTimeout(done, wait));
    const answer = await reach(address, form);
    if (answer) return answer;
  }
  throw new Unreachable();
}

async function reach(address, form) {
  let answer;
  try {
    answer = await fetch(address, { method: "POST", body: form, headers: { "X-CSRFToken": token() } });
  } catch {
    return null;
  }
  const said = await answer.json().catch(() => null);
  if (answer.ok && said) return said;
  if (answer.status >= 502 && answer.status <= 504 && !said) return null;
  throw new Refused(said?.error?.message ?? said?.error ?? SENTENCES[answer.status] ?? SENTENCES.other, answer.status);
}

const SENTENCES = {
  403: "This page is out of date. Load it again; copy what you wrote first.",
  413: "That is too large to be sent at once. Send fewer or smaller files.",
  other: "The server could not take this. Wait a moment, then try again.",
};

function token() {
  return document.querySelector("[name=csrfmiddlewaretoken]").value;
}
