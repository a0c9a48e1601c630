// Messages that the server does not have yet. They are kept in this browser's database, so that they outlive a reload and a closed
// tab. Any open tab sends them in order. Sending twice does no harm: the server knows their ids.
import { postOnce, Refused } from "../requests.js";

const WAITS = [1000, 2000, 4000, 8000, 15000, 30000]; // ms between tries; a restored connection ends the wait
const MARK = "unsent"; // in localStorage: whether there may be any messages
const LATER = [401, 429, 500]; // temporary refusals: signing in, or waiting, may help
const SILENT = { sent() {}, waits() {}, refused: () => false };

/** Outboxes of pages in this tab, by session; each sends its own messages. */
export const outboxes = new Map();

const elsewhere = new BroadcastChannel("unsent"); // other tabs are told of what is gone from here: see `Outbox`
let opened = null;
const unkept = new Map(); // if the browser stores nothing
let last = Promise.resolve(); // requests that are running, for browsers without locks
let newest = 0;

/** When a message was written, in ms. Two messages of a page within the same ms keep their order. */
const nextTime = () => (newest = Math.max(newest + 1, Date.now()));

export class Outbox {
  /**
   * `hears`: waits(message), sent(message, answer), refused(message, sentence), which takes it back; and gone(id, answer) for a
   * message that another tab sent, or, without an answer, one that was returned there.
   */
  constructor(session, hears) {
    Object.assign(this, { session, hears, tries: 0 });
    outboxes.set(session, this);
    addEventListener("online", () => this.hurry());
    new BroadcastChannel("unsent").onmessage = ({ data: { id, answer } }) => hears.gone(id, answer);
  }

  /** Show and send earlier messages first. */
  async resume() {
    const messages = await unsent(this.session);
    for (const message of messages) if (!message.refused) this.hears.waits(message);
    if (messages.length) await this.flush();
  }

  /** `message`: {id, address, said, text, files}. */
  async send(message) {
    await keep({ ...message, session: this.session, at: nextTime() });
    await this.flush();
  }

  /** Return it to its composer, unless it is sent first. */
  async takeBack(id) {
    const message = await withdraw(this.session, id);
    if (message) this.hears.refused(message, "");
  }

  hurry() {
    this.tries = 0;
    if (mayWait()) this.flush();
  }

  async flush() {
    clearTimeout(this.timer);
    const isThrough = await sendUnsent(this.session, this.hears);
    clearTimeout(this.timer);
    if (isThrough) this.tries = 0;
    else this.timer = setTimeout(() => this.flush(), WAITS[Math.min(this.tries++, WAITS.length - 1)]);
  }
}

// Keeping and sending

function database() {
  opened ??= new Promise((done, failed) => {
    const asked = indexedDB.open("unsent", 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore("messages", { keyPath: "id" });
    asked.onerror = () => failed(asked.error);
    asked.onsuccess = () => {
      asked.result.onversionchange = () => {
        asked.result.close(); // the previous user signed out
        opened = null;
      };
      done(asked.result);
    };
  });
  return opened;
}

async function within(mode, act) {
  const transaction = (await database()).transaction("messages", mode);
  const asked = act(transaction.objectStore("messages"));
  return new Promise((done, failed) => {
    transaction.oncomplete = () => done(asked.result);
    transaction.onabort = () => failed(transaction.error);
  });
}

/**
 * Keep a message: {id, session, address, said: [[name, value], …], text, files, at}, and `question` if it answers one of the
 * inbox. It replaces an earlier message with this id.
 */
export async function keep(message) {
  await within("readwrite", (store) => store.put(message)).catch(() => unkept.set(message.id, message));
  localStorage.setItem(MARK, "yes");
}

export async function drop(id) {
  unkept.delete(id);
  await within("readwrite", (store) => store.delete(id)).catch(() => {});
}

/** The messages that wait in a session, or in all, in the order in which they were written. */
export async function unsent(session = "") {
  const kept = await within("readonly", (store) => store.getAll()).catch(() => []);
  const messages = [...kept, ...unkept.values()].filter((one) => !session || one.session === session);
  return messages.sort((one, other) => one.at - other.at);
}

/**
 * Send the session's messages. Returns true if all were sent, false without a connection, null if the server does not accept them
 * yet. `hears` is that of an `Outbox`. A refused message stays, with its sentence, unless `refused` returns true.
 */
function sendUnsent(session, hears = SILENT) {
  return alone(`unsent:${session}`, async () => {
    const messages = await unsent(session);
    for (const [place, message] of messages.entries()) {
      if (message.refused && hears === SILENT) continue;
      let answer;
      try {
        answer = message.refused ? null : await postOnce(message.address, await formOf(message.said, () => keep(message)));
        if (answer) hears.sent(message, answer);
      } catch (problem) {
        if (!(problem instanceof Refused) || (hears === SILENT && LATER.includes(problem.status))) {
          for (const one of messages.slice(place)) hears.waits(one);
          return problem instanceof Refused ? null : false;
        }
        message.refused = problem.message;
        message.isGone = problem.status === 404;
      }
      const isGone = !message.refused || hears.refused(message, message.refused);
      await (isGone ? drop(message.id) : keep(message));
      if (isGone) elsewhere.postMessage({ id: message.id, answer });
    }
    if (!(await unsent()).length) localStorage.removeItem(MARK);
    return true;
  });
}

/** Keep a message from being sent; returns it, or nothing if it has been sent. */
function withdraw(session, id) {
  return alone(`unsent:${session}`, async () => {
    const message = (await unsent(session)).find((one) => one.id === id);
    await drop(id);
    if (message) elsewhere.postMessage({ id });
    return message;
  });
}

/** From any page: send all messages, except those of this page's outboxes. Returns the refused ones. */
export async function sendAll() {
  const others = async () => (await unsent()).filter(({ session }) => !outboxes.has(session));
  const sessions = new Set((await others()).map(({ session }) => session));
  for (const session of sessions) if ((await sendUnsent(session)) === false) break;
  if (!(await unsent()).length) localStorage.removeItem(MARK);
  return (await others()).filter(({ refused }) => refused);
}

export function mayWait() {
  return Boolean(localStorage.getItem(MARK));
}

/** A message's fields as a form. Large files are uploaded first, in pieces; `begun()` is called when an upload has an id. */
async function formOf(said, begun = () => {}) {
  const form = new FormData();
  for (const [name, value] of said) {
    if (name === "large") form.append("upload", value.isThere ? value.id : await uploaded(value, begun));
    else if (value instanceof File) form.append(name, value, value.name);
    else form.append(name, value);
  }
  return form;
}

async function uploaded(large, begun) {
  const { upload } = await import("./attachments.js");
  const announced = (id) => {
    large.id = id;
    begun();
  };
  return upload(large.file, { id: large.id, type: large.type, announced });
}

/** One at a time in all tabs; if the browser has no locks (a page without TLS), one at a time in this tab. */
function alone(name, act) {
  if (navigator.locks) return navigator.locks.request(name, act);
  return (last = last.catch(() => {}).then(act));
}
