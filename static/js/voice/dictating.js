// Dictation into the composer, by the connected model or the browser. A short press begins and ends it; a long one ends it when
// it is released (push to talk). What was said stands in the field, to be read before it is sent.
import { api } from "../requests.js";
import { announce } from "../toast.js";

const LONG = 350; // ms: a press that is longer ends with its release
const LONGEST = 10 * 60_000; // ms of a recording
const TYPES = ["audio/webm;codecs=opus", "audio/webm", "audio/mp4", "audio/ogg;codecs=opus"];
const Recognition = globalThis.SpeechRecognition ?? globalThis.webkitSpeechRecognition;
const REFUSED = "Parley may not use the microphone. Allow it in the browser, at the left of the address.";
const PROBLEMS = {
  "not-allowed": REFUSED,
  "service-not-allowed": REFUSED,
  "audio-capture": "There is no microphone.",
  network: "The browser's dictation needs a connection.",
};

/** `data-listens`: the connected model can. `pressed`: the event that loaded this module. */
export function start(button, composer, pressed) {
  const dictation = new Dictation(button, composer);
  const press = (event) => {
    if (event.type === "keydown" && (event.key !== " " || event.repeat)) return;
    if (event.button) return;
    event.preventDefault(); // the focus stays in the field
    if (event.pointerId !== undefined) button.setPointerCapture?.(event.pointerId);
    dictation.press();
  };
  for (const name of ["pointerdown", "keydown"]) button.addEventListener(name, press);
  for (const name of ["pointerup", "pointercancel"]) button.addEventListener(name, () => dictation.release());
  button.addEventListener("keyup", ({ key }) => key === " " && dictation.release());
  button.addEventListener("click", (event) => event.detail === 0 && event.isTrusted && dictation.toggle()); // Enter, or a screen reader
  composer.form.addEventListener("submit", () => dictation.end(), { capture: true });
  composer.form.addEventListener("keydown", ({ key }) => key === "Escape" && dictation.end());
  if (pressed) dictation.toggle();
}

class Dictation {
  constructor(button, composer) {
    Object.assign(this, { button, composer, at: 0, by: null });
  }

  press() {
    this.at = performance.now();
    this.wasOn = Boolean(this.by);
    if (!this.wasOn) this.begin();
  }

  release() {
    if (!this.at) return;
    const isLong = performance.now() - this.at > LONG;
    this.at = 0;
    if (isLong || this.wasOn) this.end();
  }

  toggle() {
    if (this.by) this.end();
    else this.begin();
  }

  async begin() {
    const { button, composer } = this;
    const Way = "listens" in button.dataset ? Recorded : Recognized;
    const by = new Way((words) => this.insert(words));
    this.by = by;
    this.show("is-on", "Listening. Press again to end.");
    composer.complain("");
    try {
      await by.run(() => this.by === by && this.show("is-waiting", "Writing down what you said."));
    } catch (problem) {
      composer.complain(problem.message);
    } finally {
      if (this.by === by || !this.by) this.show("", "");
      if (this.by === by) this.by = null;
      composer.words.focus({ preventScroll: true });
    }
  }

  end() {
    const { by } = this;
    this.by = null;
    by?.end();
    if (by) this.show("is-waiting", "");
  }

  show(look, words) {
    this.button.classList.remove("is-on", "is-waiting");
    if (look) this.button.classList.add(look);
    this.button.setAttribute("aria-pressed", String(look === "is-on"));
    if (words) announce(words);
  }

  /** At the cursor, apart from the words around it. */
  insert(said) {
    const field = this.composer.words;
    const { selectionStart: at, selectionEnd: end, value } = field;
    const space = at && !/\s/.test(value[at - 1]) ? " " : "";
    if (said.trim()) field.setRangeText(space + said.trim(), at, end, "end");
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
}

/** By the browser: what it has understood for sure is written at once. */
class Recognized {
  constructor(say) {
    if (Recognition) this.listener = Object.assign(new Recognition(), { continuous: true, lang: navigator.language });
    this.say = say;
  }

  run() {
    const { listener } = this;
    if (!listener) return Promise.reject(new Error("This browser cannot dictate, and no connected model can."));
    return new Promise((done, fail) => {
      listener.onresult = ({ results, resultIndex }) => {
        for (const one of [...results].slice(resultIndex)) if (one.isFinal) this.say(one[0].transcript);
      };
      listener.onerror = ({ error }) => PROBLEMS[error] && fail(new Error(PROBLEMS[error]));
      listener.onend = done;
      listener.start();
    });
  }

  end() {
    this.listener?.stop();
  }
}

/** By the connected model: what was recorded is written when it ends. */
class Recorded {
  constructor(say) {
    this.say = say;
    this.ended = new Promise((end) => (this.end = end));
  }

  async run(waits) {
    if (!navigator.mediaDevices) throw new Error("The browser gives its microphone only to pages with https.");
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true }).catch(({ name }) => {
      throw new Error(name === "NotAllowedError" ? REFUSED : PROBLEMS["audio-capture"]);
    });
    try {
      const recording = await this.record(stream);
      waits();
      if (recording.size) this.say((await written(recording)).text);
    } finally {
      for (const track of stream.getTracks()) track.stop();
    }
  }

  async record(stream) {
    const recorder = new MediaRecorder(stream, { mimeType: TYPES.find((type) => MediaRecorder.isTypeSupported(type)) });
    const pieces = [];
    recorder.addEventListener("dataavailable", ({ data }) => pieces.push(data));
    const stopped = new Promise((done) => recorder.addEventListener("stop", done));
    recorder.start();
    const timer = setTimeout(this.end, LONGEST);
    await this.ended;
    clearTimeout(timer);
    recorder.stop();
    await stopped;
    return new Blob(pieces, { type: recorder.mimeType });
  }
}

function written(recording) {
  const headers = { "Content-Type": recording.type.split(";")[0] };
  return api("POST", "/voice/transcriptions", recording, { headers });
}
