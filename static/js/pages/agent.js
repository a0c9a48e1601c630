// The first message to an agent: it opens a session, and the page goes there. Until the server has the message, this browser keeps
// it.
import "../clipboard.js"; // for its buttons
import { Composer } from "../compose/composer.js";
import { mayWait, Outbox } from "../compose/outbox.js";
import { FOREVER, toast } from "../toast.js";

const SHORT = 60; // characters of a message that identify it in a notice

const form = document.getElementById("composer");
const mine = `new:${location.pathname.split("/")[2]}`;
const written = new Set(); // ids of this page's messages: it goes to the session of one of these
const notes = new Map(); // messages that are being sent, by id: {message, words, away}

const outbox = new Outbox(mine, {
  waits(message) {
    const run = () => outbox.takeBack(message.id);
    note(message, `Sent when the line is back: ${short(message)}`, { name: "Take back", run });
  },
  sent(message, { session }) {
    note(message, "");
    const go = () => location.assign(session);
    if (written.has(message.id) && !isWriting()) go();
    else toast(`Sent: ${short(message)}`, { name: "Open", run: go, stays: FOREVER });
  },
  gone(id, answer) {
    const { message } = notes.get(id) ?? {};
    if (message && answer) this.sent(message, answer);
    else if (message) note(message, "");
  },
  /** The message goes back to its composer, or is shown elsewhere. */
  refused(message, sentence) {
    if (document.hidden && !written.has(message.id)) return false;
    note(message, "");
    composer.giveBack(message, sentence);
    return true;
  },
});

const composer = new Composer(form, (message) => {
  written.add(message.id);
  note(message, "Sending…");
  return outbox.send({ ...message, address: form.action });
});
if (mayWait()) outbox.resume(); // another person's data are about to be deleted

document.addEventListener("visibilitychange", () => document.hidden || outbox.hurry());

/** Show a message's progress in the corner; each change once. */
function note(message, words, act = {}) {
  const { id } = message;
  const before = notes.get(id);
  if (before?.words === words) return;
  before?.away();
  notes.delete(id);
  if (words) notes.set(id, { message, words, away: toast(words, { ...act, stays: FOREVER }) });
}

function short({ text, files }) {
  const words = text || files[0].name;
  return words.length > SHORT ? `${words.slice(0, SHORT)}…` : words;
}

function isWriting() {
  return Boolean(composer.words.value.trim() || form.querySelector(".chosen li"));
}

/** An example does not replace written words. */
function fill(words) {
  const before = composer.words.value;
  composer.write(words);
  composer.words.focus();
  if (!before.trim() || before === words) return;
  toast("The example took the place of what you wrote.", { name: "Undo", run: () => composer.write(before) });
}

// An example chosen in the list of agents fills the composer; an address never sends anything.
fill(document.getElementById("main").dataset.words || composer.words.value);

document.addEventListener("click", (event) => {
  const example = event.target.closest("[data-example]");
  if (example) fill(example.textContent);
});
