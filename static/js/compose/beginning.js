// The first message of a session: the page goes to the session when the server has the message. Until then this browser keeps it.
import { FOREVER, toast } from "../toast.js";
import { Composer } from "./composer.js";
import { mayWait, Outbox } from "./outbox.js";

const SHORT = 60; // characters of a message that identify it in a notice

/** The composer of a page that begins sessions. `key` names its waiting messages: "new:", then the agent's slug, if the page has one. */
export class Beginning {
  constructor(form, key) {
    this.form = form;
    this.written = new Set(); // ids of this page's messages: it goes to the session of one of these
    this.notes = new Map(); // messages that are being sent, by id: {message, words, away}
    this.outbox = new Outbox(key, this);
    this.composer = new Composer(form, (message) => this.send(message));
    if (mayWait()) this.outbox.resume(); // another person's data are about to be deleted
    document.addEventListener("visibilitychange", () => document.hidden || this.outbox.hurry());
  }

  /** `message` as in `Composer`. */
  send(message, address = this.form.action) {
    this.written.add(message.id);
    this.note(message, "Sending…");
    return this.outbox.send({ ...message, said: [...message.said, ...this.model(), ...this.composer.fixed()], address });
  }

  /** The model, as a field, if the person has chosen another than the usual one. */
  model() {
    const { hidden, value, options } = this.form.querySelector(".model-picker");
    const usual = [...options].find((one) => one.defaultSelected)?.value;
    return hidden || value === usual ? [] : [["model", value]];
  }

  // Events of the outbox

  waits(message) {
    const run = () => this.outbox.takeBack(message.id);
    this.note(message, `Will be sent when you are online: ${short(message)}`, { name: "Take back", run });
  }

  sent(message, { session }) {
    this.note(message, "");
    const go = () => location.assign(session);
    if (this.written.has(message.id) && !this.isWriting()) go();
    else toast(`Sent: ${short(message)}`, { name: "Open", run: go, stays: FOREVER });
  }

  gone(id, answer) {
    const { message } = this.notes.get(id) ?? {};
    if (message && answer) this.sent(message, answer);
    else if (message) this.note(message, "");
  }

  /** The message goes back to its composer, or is shown elsewhere. */
  refused(message, sentence) {
    if (document.hidden && !this.written.has(message.id)) return false;
    this.note(message, "");
    this.composer.giveBack(message, sentence);
    return true;
  }

  /** Show a message's progress in the corner; each change once. */
  note(message, words, act = {}) {
    const { id } = message;
    const before = this.notes.get(id);
    if (before?.words === words) return;
    before?.away();
    this.notes.delete(id);
    if (words) this.notes.set(id, { message, words, away: toast(words, { ...act, stays: FOREVER }) });
  }

  isWriting() {
    return Boolean(this.composer.words.value.trim() || this.form.querySelector(".chosen li"));
  }
}

function short({ text, files }) {
  const words = text || files[0].name;
  return words.length > SHORT ? `${words.slice(0, SHORT)}…` : words;
}
