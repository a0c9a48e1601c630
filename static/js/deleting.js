// Deleting sessions, with a way back for some seconds. What is to be deleted is kept in the browser until it is: whoever goes
// to another page in that time finds the way back there, and what was left behind is deleted by the next page.
import { api } from "./api.js";
import { Unreachable } from "./post.js";
import { shortcut } from "./shortcuts.js";
import { toast } from "./toast.js";

const KEY = `parley.deleting.${document.querySelector(".sidebar").dataset.user}`;
const STAYS = 10_000; // ms in which it can be taken back
const ON_THE_WAY = 30_000; // ms more in which a page that comes next offers the way back anew
const offered = new Map(); // of this page: what takes a toast away, by session

const pending = () => JSON.parse(localStorage.getItem(KEY) ?? "{}");

function keep(sessions) {
  if (Object.keys(sessions).length) localStorage.setItem(KEY, JSON.stringify(sessions));
  else localStorage.removeItem(KEY);
  document.dispatchEvent(new Event("sessions-changed"));
}

function forget(id) {
  const { [id]: forgotten, ...others } = pending();
  offered.delete(id);
  keep(others);
  return forgotten;
}

/** Delete a session, unless the person takes that back. */
export function later(id, title) {
  keep({ ...pending(), [id]: { title, until: Date.now() + STAYS } });
  offer(id, title);
}

/** What another page began. */
export function resume() {
  for (const [id, { title, until }] of Object.entries(pending())) {
    if (until + ON_THE_WAY <= Date.now()) carryOut(id);
    else if (!offered.has(id)) offer(id, title);
  }
  document.dispatchEvent(new Event("sessions-changed")); // the server listed them still
}

/** Whoever leaves takes nothing back any more. */
export const finish = () => Promise.all(Object.keys(pending()).map(carryOut));

function offer(id, title) {
  const act = { name: "Undo", run: () => giveBack(id), stays: STAYS, over: () => carryOut(id) };
  offered.set(id, toast(`“${title}” is deleted.`, act));
}

function giveBack(id) {
  if (!forget(id)) toast("That is deleted already.");
}

async function carryOut(id) {
  offered.delete(id);
  if (!(id in pending())) return; // taken back, or done by another tab
  try {
    await api("DELETE", `/sessions/${id}`);
  } catch (problem) {
    if (problem instanceof Unreachable) return; // it stays to be deleted
    if (problem.status !== 404) toast(`“${pending()[id]?.title}” could not be deleted. ${problem.message}`);
  }
  forget(id);
}

shortcut("mod+z", "Take back what you just deleted", ({ target }) => {
  const newest = [...offered.keys()].at(-1);
  if (!newest || target.matches("input, textarea, [contenteditable]")) return false;
  offered.get(newest)();
  giveBack(newest);
});

addEventListener("online", resume);
