// Reads answers aloud, by the connected model or the browser. One at a time.
import { shownText } from "../dom.js";
import { request } from "../requests.js";
import { toast } from "../toast.js";

const LONGEST = 500; // characters read in one go: the first sound comes soon, and browsers cut off long texts
const SENTENCE = /[^.!?…。！？\n]*[.!?…。！？\n]+["”’)\]]*\s*|[^.!?…。！？\n]+$/gu;
const CANNOT = "This browser cannot read aloud, and no connected model can.";

let reading = null; // {item, end}

export const isReading = (item) => reading?.item.key === item.key;

/** What a message's menu calls: read it, or stop. `data-speaks`: the connected model can. */
export async function act(page, item, { dataset }) {
  const wasRead = isReading(item);
  reading?.end();
  if (wasRead) return;
  const cut = new AbortController();
  const mine = { item, end: () => cut.abort() };
  reading = mine;
  addEventListener("pagehide", mine.end, { once: true });
  const close = toast("Reading aloud.", { name: "Stop", run: mine.end, stays: 2 ** 31 - 1 });
  try {
    const pieces = inPieces(shownText(page.element(item)) || item.text);
    await ("speaks" in dataset ? byModel : byBrowser)(pieces, cut.signal);
  } catch (problem) {
    if (!cut.signal.aborted) toast(problem.message);
  } finally {
    close();
    if (reading === mine) reading = null;
  }
}

export function inPieces(text) {
  const pieces = [""];
  for (const sentence of text.match(SENTENCE) ?? []) {
    for (let at = 0; at < sentence.length; at += LONGEST) {
      const part = sentence.slice(at, at + LONGEST);
      if (pieces.at(-1).length + part.length > LONGEST) pieces.push("");
      pieces[pieces.length - 1] += part;
    }
  }
  return pieces.map((piece) => piece.trim()).filter(Boolean);
}

/** The next piece is made while one is heard. */
async function byModel(pieces, signal) {
  const context = new AudioContext();
  signal.addEventListener("abort", () => context.close());
  try {
    let coming = sound(context, pieces[0], signal);
    for (let at = 0; at < pieces.length && !signal.aborted; at++) {
      const now = await coming;
      coming = at + 1 < pieces.length ? sound(context, pieces[at + 1], signal) : null;
      coming?.catch(() => {}); // it is thrown where it is awaited
      await played(context, now, signal);
    }
  } finally {
    if (context.state !== "closed") await context.close();
  }
}

async function sound(context, text, signal) {
  const headers = { "Content-Type": "application/json", Accept: "audio/mpeg, application/json" };
  const answer = await request("/api/v1/voice/speech", { method: "POST", headers, signal, body: JSON.stringify({ text }) });
  if (!answer.ok) throw new Error((await answer.json().catch(() => null))?.detail ?? "The answer could not be read aloud. Try again.");
  return context.decodeAudioData(await answer.arrayBuffer());
}

function played(context, buffer, signal) {
  const source = new AudioBufferSourceNode(context, { buffer });
  source.connect(context.destination);
  return new Promise((done) => {
    source.addEventListener("ended", done);
    signal.addEventListener("abort", done);
    source.start();
  });
}

async function byBrowser(pieces, signal) {
  if (!("speechSynthesis" in globalThis)) throw new Error(CANNOT);
  signal.addEventListener("abort", () => speechSynthesis.cancel());
  speechSynthesis.cancel();
  for (const piece of pieces) if (!signal.aborted) await uttered(piece);
}

function uttered(text) {
  return new Promise((done, fail) => {
    const words = new SpeechSynthesisUtterance(text);
    words.addEventListener("end", done);
    words.addEventListener("error", ({ error }) => (["canceled", "interrupted"].includes(error) ? done() : fail(new Error(CANNOT))));
    speechSynthesis.speak(words);
  });
}
