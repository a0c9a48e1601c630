// What can be done with a session in a list: rename, pin, archive, delete. From the ⋯ of its row.
import { api } from "./api.js";
import { later } from "./deleting.js";
import { h } from "./dom.js";
import { toast } from "./toast.js";

const menu = document.getElementById("row-menu");

let row = null; // what the menu is for
let button = null;
let closing = null; // the button whose press closes the menu: it does not open it again

/** `pressed` may have been drawn anew while this was loaded. */
export function open(pressed) {
  const opener = document.getElementById(pressed.id);
  if (!opener || closing === opener) return;
  [row, button] = [opener.closest("[data-key]"), opener];
  const isArchived = Boolean(row.closest("[data-archived]"));
  item("pin").lastElementChild.textContent = "pinned" in row.dataset ? "Unpin" : "Pin";
  item("pin").hidden = item("archive").hidden = isArchived;
  item("unarchive").hidden = !isArchived;
  menu.showPopover();
  place(opener.getBoundingClientRect());
  menu.querySelector("button:not([hidden])").focus();
}

const item = (act) => menu.querySelector(`[data-act="${act}"]`);
const idOf = () => row.dataset.key;
const titleOf = () => row.querySelector(".name").textContent.trim();
const changed = () => document.dispatchEvent(new Event("sessions-changed"));

/** Beside its button; on a phone the style sheet puts it at the bottom. */
function place({ bottom, left }) {
  const isNarrow = innerWidth < 640;
  const at = (limit, wanted) => (isNarrow ? "" : `${Math.max(8, Math.min(wanted, limit - 8))}px`);
  menu.style.setProperty("top", at(innerHeight - menu.offsetHeight, bottom + 4));
  menu.style.setProperty("left", at(innerWidth - menu.offsetWidth, left));
  for (const side of ["bottom", "right"]) menu.style.setProperty(side, isNarrow ? "" : "auto");
}

document.addEventListener(
  "pointerdown",
  ({ target }) => (closing = menu.matches(":popover-open") ? target.closest("[data-more]") : null),
  { capture: true },
);

menu.addEventListener("toggle", ({ newState }) => {
  if (newState !== "closed") return;
  if (document.activeElement === document.body) document.getElementById(button.id)?.focus();
});

menu.addEventListener("keydown", (event) => {
  const items = [...menu.querySelectorAll("button:not([hidden])")];
  const now = items.indexOf(document.activeElement);
  const next = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: -1 }[event.key];
  if (event.key === "Tab") menu.hidePopover();
  if (next === undefined) return;
  event.preventDefault();
  items.at(next % items.length).focus();
});

menu.addEventListener("click", ({ target }) => {
  const act = target.closest("[data-act]")?.dataset.act;
  if (!act) return;
  menu.hidePopover();
  ACTS[act]().catch((problem) => toast(problem.message));
});

const ACTS = {
  async rename() {
    const link = row.querySelector("[data-session]");
    const field = h("input", { value: titleOf(), maxlength: 200, "aria-label": "Name of the session", dir: "auto" });
    const form = h("form", { class: "rename" }, field);
    link.hidden = row.querySelector("[data-more]").hidden = true;
    row.prepend(form);
    field.focus();
    field.select();
    new Renaming(row, form, field);
  },
  async pin() {
    const pinned = !("pinned" in row.dataset);
    await api("PUT", `/sessions/${idOf()}/mark`, { pinned });
    changed();
    toast(pinned ? "Pinned: it stays at the top." : "Unpinned.");
  },
  async archive() {
    await putAway("archive", "is archived.", "unarchive");
  },
  async unarchive() {
    await putAway("unarchive", "is back in your list.", "archive");
  },
  async delete() {
    const [id, title] = [idOf(), titleOf()];
    leave();
    later(id, title);
    if (location.pathname === `/sessions/${id}`) location.assign("/");
  },
};

async function putAway(act, words, back) {
  const [id, title] = [idOf(), titleOf()];
  await api("POST", `/sessions/${id}/${act}`);
  leave();
  changed();
  const run = () => api("POST", `/sessions/${id}/${back}`).then(changed, (problem) => toast(problem.message));
  toast(`“${title}” ${words}`, { name: "Undo", run });
}

/** The row will be gone: the focus goes to the next one. */
function leave() {
  const rows = [...row.closest("[data-list]").querySelectorAll("[data-key]")];
  const at = rows.indexOf(row);
  const next = rows[at + 1] ?? rows[at - 1];
  (next?.querySelector("[data-session]") ?? document.getElementById("main")).focus();
}

/** A name while it is typed. Enter and leaving the field keep it, Escape does not. */
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
    name.textContent = title; // paler until it is so
    name.classList.add("pending");
    try {
      await api("PATCH", `/sessions/${this.row.dataset.key}`, { title });
    } catch (problem) {
      name.textContent = this.before;
      toast(`The name stays as it was. ${problem.message}`, { name: "Try that name again", run: () => this.keep(title) });
    }
    name.classList.remove("pending");
    changed();
  }

  end(takesFocus) {
    if (this.isOver) return;
    this.isOver = true;
    this.form.remove();
    const link = this.row.querySelector("[data-session]");
    link.hidden = this.row.querySelector("[data-more]").hidden = false;
    if (takesFocus) link.focus();
  }
}
