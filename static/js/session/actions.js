// What can be done with a message: a menu at its button, by pointer and by keyboard.
import { api } from "../api.js";
import { h, icon } from "../dom.js";
import { uuid } from "../ids.js";
import { copyText } from "../copying.js";
import { toast } from "../toast.js";
import { choices, withArrows } from "./menus.js";
import { idOf } from "./recorded.js";

const PATIENCE = 60_000; // ms

export function start(page) {
  document.getElementById("items").addEventListener("click", ({ target }) => {
    const button = target.closest(".actions button");
    if (button) ACTS[button.dataset.act](page, page.view.itemOf(button.closest("li")), button);
  });
}

const ACTS = { copy, more };

/** Copy the text of a message, as one reads it. */
async function copy(page, item, button) {
  const shown = page.element(item)?.querySelector(".prose");
  if (!(await copyText(shown?.innerText.trim() || item.text))) return;
  button.classList.add("is-done");
  setTimeout(() => button.classList.remove("is-done"), 1500);
}

/** The menu of a message. */
function more(page, item, button) {
  const menu = h("div", { class: "menu action-menu", role: "menu", popover: "", "aria-label": "What to do with this message" });
  menu.append(...entries(page, item).map((entry) => choice(menu, entry)));
  document.getElementById("main").append(menu);
  withArrows(menu);
  menu.addEventListener("keydown", (event) => event.key === "Tab" && menu.hidePopover());
  menu.addEventListener("toggle", ({ newState }) => newState === "closed" && closed(page, item, menu, button));
  menu.showPopover();
  button.setAttribute("aria-expanded", "true");
  place(menu, button);
  choices(menu)[0].focus();
}

function entries(page, item) {
  const mine = item.role === "user";
  const isAnswer = !mine && Boolean(item.messageId); // and nothing that still streams
  const address = `${location.origin}/sessions/${page.id}#m-${item.index}`;
  return [
    mine && { name: "Edit", sign: "edit", run: () => edit(page, item) },
    isAnswer && { name: "Try again", sign: "again", run: () => forked(page, { retry: true, running: "finish" }, item) },
    isAnswer && { name: "Fork from here", sign: "branch", run: () => forked(page, { at: item.index }) },
    item.taskId && { name: "Refer to this", sign: "refer", run: () => refer(page, item) },
    item.text && { name: "Copy as Markdown", sign: "copy", run: () => copyText(item.text) },
    { name: "Copy link", sign: "link", run: () => copyText(address, "The link to this message is in the clipboard.") },
    item.taskId && { name: "How it was done", sign: "sessions", href: `/tasks/${item.taskId}` },
  ].filter(Boolean);
}

function choice(menu, { name, sign, run, href }) {
  const inside = [icon(sign), h("span", { class: "name" }, name)];
  if (href) return h("a", { role: "menuitem", tabindex: "-1", href }, inside);
  const act = () => {
    menu.dataset.done = "";
    menu.hidePopover();
    run()?.catch?.(() => import("../failed.js").then(({ sayLater }) => sayLater(), () => {}));
  };
  return h("button", { type: "button", role: "menuitem", tabindex: "-1", onclick: act }, inside);
}

/** Below its button, or above where there is no room; on a phone the stylesheet puts it at the thumb. */
function place(menu, button) {
  const at = button.getBoundingClientRect();
  const { width, height } = menu.getBoundingClientRect();
  const top = at.bottom + height + 8 > innerHeight ? Math.max(8, at.top - height - 4) : at.bottom + 4;
  menu.style.setProperty("--left", `${Math.max(8, Math.min(at.right - width, innerWidth - width - 8))}px`);
  menu.style.setProperty("--top", `${top}px`);
}

function closed(page, item, menu, button) {
  const hadFocus = menu.contains(document.activeElement) || document.activeElement === document.body;
  menu.remove();
  button.setAttribute("aria-expanded", "false");
  if (hadFocus) opener(page, item, button).focus();
}

/** The button of a message, which may have been drawn anew meanwhile. */
function opener(page, item, button) {
  return button.isConnected ? button : (page.element(item)?.querySelector("[data-act=more]") ?? page.composer.words);
}

async function edit(page, item) {
  const editing = await import("./editing.js");
  editing.edit(page, item);
}

async function refer(page, item) {
  const referring = await import("./referring.js");
  referring.refer(page, item);
}

let away = null; // takes away what is said of a branch that is being made, until the page goes there
addEventListener("pageshow", () => (away = away?.()));
const keys = {}; // of what was asked for and not answered: asked once more, it is the same

/** Go on in a fork: `how` is what the client API is told, about `item` where that is named. */
async function forked(page, how, item = null) {
  if (away) return;
  away = toast("Making a branch…", { stays: 2 * PATIENCE, over: () => (away = null) });
  try {
    const asked = { ...how, ...(item && { messageId: await idOf(page, item) }) };
    const about = JSON.stringify(asked);
    keys[about] ??= uuid();
    const { session } = await api("POST", `/sessions/${page.id}/fork`, asked, { key: keys[about], signal: AbortSignal.timeout(PATIENCE) });
    delete keys[about];
    location.assign(`/sessions/${session.id}`);
  } catch (problem) {
    page.complain(problem.message);
    away = away?.();
  }
}
