// Messages that the server does not have yet, in this browser's own database: they outlive a reload and a closed tab, and
// are sent in their order, once, by whichever tab is there. Sending again does no harm: the server knows their ids.
import { Refused, postOnce } from "./post.js";

const MARK = "unsent"; // in localStorage: whether there may be some at all
const LATER = [401, 429, 500]; // what refuses for now: who signs in again, or waits, is not refused

/** Those whose page is open in this tab and sends what is theirs (`outbox.js`), by session. */
export const outboxes = new Map();

const elsewhere = new BroadcastChannel("unsent"); // other tabs are told of what is gone from here: see `Outbox`
let opened = null;
const unkept = new Map(); // where the browser keeps nothing for us

function database() {
  opened ??= new Promise((done, failed) => {
    const asked = indexedDB.open("unsent", 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore("messages", { keyPath: "id" });
    asked.onerror = () => failed(asked.error);
    asked.onsuccess = () => {
      asked.result.onversionchange = () => {
        asked.result.close(); // whoever was here signed out
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
 * Keep a message: {id, session, address, said: [[name, value], …], text, files, at}, and `question` where it answers one of
 * the inbox; it takes the place of its former self.
 */
export async function keep(message) {
  await within("readwrite", (store) => store.put(message)).catch(() => unkept.set(message.id, message));
  localStorage.setItem(MARK, "yes");
}

export async function drop(id) {
  unkept.delete(id);
  await within("readwrite", (store) => store.delete(id)).catch(() => {});
}

/** What a session waits for, or all of them do, in the order in which it was written. */
export async function all(session = "") {
  const kept = await within("readonly", (store) => store.getAll()).catch(() => []);
  const messages = [...kept, ...unkept.values()].filter((one) => !session || one.session === session);
  return messages.sort((one, other) => one.at - other.at);
}

const SILENT = { sent() {}, waits() {}, refused: () => false };

/**
 * Send what the session waits for; gives whether all of it is through: false where there is no line, null where the server
 * does not take it yet. `hears` is that of an `Outbox`; what is refused stays, with its sentence, unless `refused` gives true.
 */
export function send(session, hears = SILENT) {
  return alone(`unsent:${session}`, async () => {
    const messages = await all(session);
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
    if (!(await all()).length) localStorage.removeItem(MARK);
    return true;
  });
}

/** Keep a message from being sent; gives it, or nothing where it was sent meanwhile. */
export function takeBack(session, id) {
  return alone(`unsent:${session}`, async () => {
    const message = (await all(session)).find((one) => one.id === id);
    await drop(id);
    if (message) elsewhere.postMessage({ id });
    return message;
  });
}

/** From any page: send all that waits, but what an outbox of this page does. Gives what was refused. */
export async function sendAll() {
  const others = async () => (await all()).filter(({ session }) => !outboxes.has(session));
  const sessions = new Set((await others()).map(({ session }) => session));
  for (const session of sessions) if ((await send(session)) === false) break;
  if (!(await all()).length) localStorage.removeItem(MARK);
  return (await others()).filter(({ refused }) => refused);
}

export function mayWait() {
  return Boolean(localStorage.getItem(MARK));
}

/** A message's fields as a form; large files go to the server first, in pieces, and `begun()` is told where one is known by an id. */
export async function formOf(said, begun = () => {}) {
  const form = new FormData();
  for (const [name, value] of said) {
    if (name === "large") form.append("upload", value.isThere ? value.id : await uploaded(value, begun));
    else if (value instanceof File) form.append(name, value, value.name);
    else form.append(name, value);
  }
  return form;
}

async function uploaded(large, begun) {
  const { upload } = await import("./uploading.js");
  const announced = (id) => {
    large.id = id;
    begun();
  };
  return upload(large.file, { id: large.id, announced });
}

let last = Promise.resolve();

/** One at a time in all tabs; where the browser has no locks (a page without TLS), in this one. */
function alone(name, act) {
  if (navigator.locks) return navigator.locks.request(name, act);
  return (last = last.catch(() => {}).then(act));
}
