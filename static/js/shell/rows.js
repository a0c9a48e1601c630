// The menu of a session in a list: rename, pin, archive, delete. A deletion can be undone for some seconds, also on other pages:
// until then the browser keeps it.
import { showDialog } from "../dialog.js";
import { h } from "../dom.js";
import { withArrows } from "../menu.js";
import { placeMenu } from "../place.js";
import { api, Unreachable } from "../requests.js";
import { announce, toast } from "../toast.js";
import { shortcut } from "./shortcuts.js";

const ALL = "?branches=all";
const BUTTONS = ".more-actions, .branch-acts";
const menu = document.getElementById("row-menu");

let row = null; // the row that the menu is for
let button = null;
let closing = null; // the button whose press closes the menu must not open it again

/** `pressed` may have been redrawn while this was loaded. */
export function open(pressed) {
  const opener = document.getElementById(pressed.id);
  if (!opener || closing === opener) return;
  [row, button] = [opener.closest("[data-key]"), opener];
  const isArchived = Boolean(row.closest("[data-archived]"));
  item("pin").lastElementChild.textContent = "pinned" in row.dataset ? "Unpin" : "Pin";
  item("pin").hidden = item("archive").hidden = isArchived;
  item("unarchive").hidden = !isArchived;
  menu.showPopover();
  placeMenu(menu, opener);
  menu.querySelector("button:not([hidden])").focus();
}

const item = (act) => menu.querySelector(`[data-act="${act}"]`);
const idOf = () => row.dataset.key;
const titleOf = () => row.querySelector(".name").textContent.trim();
const changed = () => document.dispatchEvent(new Event("sessions-changed"));

document.addEventListener(
  "pointerdown",
  ({ target }) => (closing = menu.matches(":popover-open") ? target.closest("[data-more]") : null),
  { capture: true },
);

menu.addEventListener("toggle", ({ newState }) => {
  if (newState !== "closed") return;
  if (document.activeElement === document.body) document.getElementById(button.id)?.focus();
});

withArrows(menu);

menu.addEventListener("click", ({ target }) => {
  const act = target.closest("[data-act]")?.dataset.act;
  if (!act) return;
  menu.hidePopover();
  ACTS[act]().catch((problem) => toast(problem.message));
});

const ACTS = {
  async rename() {
    renameRow(row, "Session name");
  },
  async pin() {
    const pinned = !("pinned" in row.dataset);
    await api("PUT", `/sessions/${idOf()}/mark${pinned ? "" : ALL}`, { pinned });
    changed();
    announce(pinned ? "Pinned." : "Unpinned."); // the list shows it
  },
  async archive() {
    await putAway("archive", "is archived.", "unarchive");
  },
  async unarchive() {
    await putAway("unarchive", "is back in your list.", "archive");
  },
  async delete() {
    const [id, title, branches] = [idOf(), titleOf(), Number(row.dataset.branches)];
    const isOpen = row.dataset.family === document.getElementById("session")?.dataset.family;
    const which = branches > 1 ? await askWhich(title, branches) : ALL;
    if (which === null) return;
    if (which !== ALL) {
      const { session } = row.querySelector("[data-session]").dataset;
      deleteLater(session, `The branch of “${title}” that was used last`, "");
      if (location.pathname === `/sessions/${session}`) location.assign("/");
      return;
    }
    leave();
    deleteLater(id, `“${title}”`, ALL);
    if (isOpen) location.assign("/");
  },
};

async function putAway(act, words, back) {
  const [id, title] = [idOf(), titleOf()];
  await api("POST", `/sessions/${id}/${act}${ALL}`);
  leave();
  changed();
  const run = () => api("POST", `/sessions/${id}/${back}${ALL}`).then(changed, (problem) => toast(problem.message));
  toast(`“${title}” ${words}`, { name: "Undo", run });
}

/** Which branches a person wants to delete: `ALL`, "" for the one that was used last, null for none. */
function askWhich(title, branches) {
  return new Promise((answer) => {
    const choose = (which) => () => {
      answer(which);
      dialog.close();
    };
    const all = h("button", { type: "button", class: "primary", onclick: choose(ALL), autofocus: true }, `Delete all ${branches} branches`);
    const one = h("button", { type: "button", onclick: choose("") }, "Only the branch used last");
    const cancel = h("button", { type: "button", class: "quiet", onclick: choose(null) }, "Cancel");
    const words = h("p", {}, `“${title}” has ${branches} branches: its edits, retries and forks.`);
    const dialog = showDialog("Delete this conversation?", [words, h("p", { class: "actions" }, all, one, cancel)], document.getElementById(button.id));
    dialog.addEventListener("close", () => answer(null));
  });
}

/** The row will disappear: the next one gets the focus. */
function leave() {
  if (!row.isConnected) return document.getElementById("main").focus(); // the list was drawn anew meanwhile
  const rows = [...row.closest("[data-list]").querySelectorAll("[data-key]")];
  const at = rows.indexOf(row);
  const next = rows[at + 1] ?? rows[at - 1];
  (next?.querySelector("[data-session]") ?? document.getElementById("main")).focus();
}

/** Edit the name of a row in place. */
export function renameRow(row, label) {
  const name = row.querySelector(".name").textContent.trim();
  const field = h("input", { value: name, maxlength: 200, "aria-label": label, dir: "auto" });
  const form = h("form", { class: "rename" }, field);
  row.querySelector("[data-session]").hidden = row.querySelector(BUTTONS).hidden = true;
  row.prepend(form);
  field.focus();
  field.select();
  new Renaming(row, form, field);
}

/** Editing a name. Enter and leaving the field save it, Escape does not. */
class Renaming {
  constructor(row, form, field) {
    Object.assign(this, { row, form, field, before: field.value, isOver: false });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.save(true);
    });
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      event.preventDefault(); // a menu around it stays open
      this.end(true);
    });
    field.addEventListener("blur", () => this.save(false));
  }

  async save(staysHere) {
    const title = this.field.value.trim();
    if (this.isOver || !title || title === this.before) return this.end(staysHere);
    this.end(staysHere);
    await this.keep(title);
  }

  async keep(title) {
    const name = this.row.querySelector(".name");
    name.textContent = title; // paler until it is saved
    name.classList.add("pending");
    try {
      await api("PATCH", `/sessions/${this.row.dataset.key}`, { title });
    } catch (problem) {
      name.textContent = this.before;
      toast(`The session was not renamed. ${problem.message}`, { name: "Try again", run: () => this.keep(title) });
    }
    name.classList.remove("pending");
    changed();
  }

  end(takesFocus) {
    if (this.isOver) return;
    this.isOver = true;
    this.form.remove();
    const link = this.row.querySelector("[data-session]");
    link.hidden = this.row.querySelector(BUTTONS).hidden = false;
    if (takesFocus) link.focus();
  }
}

const PENDING = `parley.deleting.${document.querySelector(".sidebar").dataset.user}`;
const STAYS = 10_000; // ms in which it can be undone
const ON_THE_WAY = 30_000; // ms more in which the next page offers to undo it
const offered = new Map(); // functions that remove this page's toasts, by session

const pending = () => JSON.parse(localStorage.getItem(PENDING) ?? "{}");

function keepPending(sessions) {
  if (Object.keys(sessions).length) localStorage.setItem(PENDING, JSON.stringify(sessions));
  else localStorage.removeItem(PENDING);
  document.dispatchEvent(new Event("sessions-changed"));
}

function forget(id) {
  const { [id]: forgotten, ...others } = pending();
  offered.delete(id);
  keepPending(others);
  return forgotten;
}

/** Delete a session, unless the person undoes it. `which` of its branches too: the query of the request. */
export function deleteLater(id, title, which) {
  keepPending({ ...pending(), [id]: { title, which, until: Date.now() + STAYS } });
  offer(id, title);
}

/** Deletions that another page began. */
export function resumeDeleting() {
  for (const [id, { title, until }] of Object.entries(pending())) {
    if (until + ON_THE_WAY <= Date.now()) carryOut(id);
    else if (!offered.has(id)) offer(id, title);
  }
  document.dispatchEvent(new Event("sessions-changed")); // the server still listed them
}

/** After leaving, a deletion cannot be undone. */
export const finishDeleting = () => Promise.all(Object.keys(pending()).map(carryOut));

function offer(id, title) {
  const act = { name: "Undo", run: () => giveBack(id), stays: STAYS, over: () => carryOut(id) };
  offered.set(id, toast(`${title} was deleted.`, act));
}

function giveBack(id) {
  if (!forget(id)) toast("It is already deleted.");
}

async function carryOut(id) {
  offered.delete(id);
  if (!(id in pending())) return; // undone, or done by another tab
  try {
    await api("DELETE", `/sessions/${id}${pending()[id].which ?? ""}`);
  } catch (problem) {
    if (problem instanceof Unreachable) return; // it remains to be deleted
    if (problem.status !== 404) toast(`${pending()[id]?.title} could not be deleted. ${problem.message}`);
  }
  forget(id);
}

shortcut("mod+z", "Undo a deletion", ({ target }) => {
  const newest = [...offered.keys()].at(-1);
  if (!newest || target.matches("input, textarea, [contenteditable]")) return false;
  offered.get(newest)();
  giveBack(newest);
});

addEventListener("online", resumeDeleting);
