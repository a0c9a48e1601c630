// Actions on a message: its buttons, and its menu, by pointer and by keyboard.
import { copyFrom, copyText, quietly } from "../clipboard.js";
import { keepWith } from "../compose/drafts.js";
import { h, icon, shownText } from "../dom.js";
import { choices, withArrows } from "../menu.js";
import { placeMenu } from "../place.js";
import { api, uuid } from "../requests.js";
import { reportNotLoaded, toast } from "../toast.js";

const PATIENCE = 60_000; // ms

export function start(page) {
  document.getElementById("items").addEventListener("click", ({ target }) => {
    const button = target.closest(".actions button");
    const item = page.view.itemOf(target.closest("li"));
    if (target.matches("[data-run]")) forked(page, { retry: true, running: "finish" }, item);
    else if (button) ACTS[button.dataset.act](page, item, button);
    else if (target.matches(".show-all")) showAll(target);
  });
}

const again = (page, item) => forked(page, { retry: true, running: "finish" }, item);

const ACTS = { copy, more, edit, again };

/** Copy the text of a message as displayed. */
async function copy(page, item, button) {
  if (!(await copyText(shownText(page.element(item)) || item.text, "Copied.", quietly))) return;
  button.classList.add("is-done");
  setTimeout(() => button.classList.remove("is-done"), 1500);
}

/** The menu of a message. */
function more(page, item, button) {
  const menu = h("div", { class: "menu action-menu", role: "menu", popover: "", "aria-label": "Message actions" });
  menu.append(...entries(page, item).map((entry) => choice(menu, entry)));
  document.getElementById("main").append(menu);
  withArrows(menu);
  menu.addEventListener("toggle", ({ newState }) => newState === "closed" && closed(page, item, menu, button));
  menu.showPopover();
  button.setAttribute("aria-expanded", "true");
  placeMenu(menu, button);
  choices(menu)[0].focus();
}

function entries(page, item) {
  const isAnswer = item.role === "agent" && Boolean(item.messageId); // no text that still streams
  const address = `${location.origin}/sessions/${page.id}#m-${item.index}`;
  return [
    item.used && { name: item.used },
    isAnswer && { name: "Try again with…", sign: "again", run: () => againWith(page, item) },
    isAnswer && { name: "Fork from here", sign: "branch", run: () => forked(page, { at: item.index }) },
    ...addedActs(page, item, isAnswer),
    item.taskId && { name: "Reply to this", sign: "refer", run: () => refer(page, item) },
    item.text && { name: "Copy as Markdown", sign: "copy", run: () => copyText(item.text) },
    item.textAt && { name: "Copy as Markdown", sign: "copy", run: () => copyFrom(item.textAt) },
    { name: "Copy link", sign: "link", run: () => copyText(address, "Link copied, for who can see this session.") },
    item.taskId && { name: "Show details", sign: "sessions", href: `/tasks/${item.taskId}` },
  ].filter(Boolean);
}

/** What apps add: options with the address of a module, which has the function `act`. */
function addedActs(page, item, isAnswer) {
  const options = isAnswer ? [...document.querySelectorAll("#message-acts option")] : [];
  return options.map((option) => {
    const run = async () => (await import(option.dataset.module)).act(page, item, option);
    return { name: option.label, sign: option.dataset.sign, run };
  });
}

function choice(menu, { name, sign, run, href }) {
  if (!sign) return h("p", { class: "who figures" }, name);
  const inside = [icon(sign), h("span", { class: "name" }, name)];
  if (href) return h("a", { role: "menuitem", tabindex: "-1", href }, inside);
  const act = () => {
    menu.dataset.done = "";
    menu.hidePopover();
    run()?.catch?.(() => reportNotLoaded());
  };
  return h("button", { type: "button", role: "menuitem", tabindex: "-1", onclick: act }, inside);
}

function closed(page, item, menu, button) {
  const hadFocus = menu.contains(document.activeElement) || document.activeElement === document.body;
  menu.remove();
  button.setAttribute("aria-expanded", "false");
  if (hadFocus) opener(page, item, button).focus();
}

/** The button of a message, which may have been redrawn. */
function opener(page, item, button) {
  return button.isConnected ? button : (page.element(item)?.querySelector("[data-act=more]") ?? page.composer.words);
}

async function edit(page, item) {
  (await import("./editing.js")).edit(page, item);
}

/** Choose another agent or model for the answer. */
async function againWith(page, item) {
  const { chooseOther } = await import("./regenerate.js");
  chooseOther(item, (how) => forked(page, { retry: true, running: "finish", ...how }, item));
}

let away = null; // removes the notice about a new branch, until the page goes there
addEventListener("pageshow", () => (away = away?.()));
const keys = {}; // keys of unanswered requests: a repeated request has the same key

/** Continue in a fork: `how` is the request for the client API, about `item` if given. */
async function forked(page, how, item = null) {
  if (away) return;
  away = toast("Making a fork…", { stays: 2 * PATIENCE, over: () => (away = null) });
  try {
    const { idOf } = await import("./editing.js");
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

/** Move the focus to the new content. */
function showAll(button) {
  const message = button.closest(".message");
  button.remove();
  message.tabIndex = -1;
  message.focus({ preventScroll: true });
}

const LONGEST = 60; // characters of what a chip says

/** The next message refers to the task of `item`. */
function refer(page, item) {
  const { composer } = page;
  const name = nameOf(page, item);
  add(composer, item.taskId, name);
  page.announce(`Your next message replies to: ${name}`);
  composer.words.focus();
}

/** The references of a restored draft: [task, name] each. */
export function recallReferences(composer, references) {
  for (const [task, name] of references) add(composer, task, name);
}

function add(composer, task, name) {
  const list = chips(composer);
  if (!list.querySelector(`[data-reference="${task}"]`)) list.append(referenceChip(composer, task, name));
  writeReferences(composer);
}

function chips(composer) {
  const notes = document.getElementById("composer-notes");
  const known = notes.querySelector(".refers");
  if (known) return known;
  const list = h("ul", { class: "plain refers", "aria-label": "What your next message replies to" });
  notes.append(list);
  composer.form.addEventListener("cleared", () => {
    list.replaceChildren();
    writeReferences(composer);
  });
  return list;
}

function referenceChip(composer, task, name) {
  const away = () => {
    element.remove();
    writeReferences(composer);
    composer.words.focus();
  };
  const remove = h("button", { type: "button", class: "quiet round", "aria-label": `Do not reply to ${name}`, onclick: away }, icon("close"));
  const element = h("li", { class: "chip", "data-reference": task }, icon("refer"), h("span", { class: "name", dir: "auto" }, name), remove);
  return element;
}

function writeReferences(composer) {
  const chosen = [...document.querySelectorAll("#composer-notes [data-reference]")];
  const others = composer.also.filter(([name]) => name !== "reference");
  composer.also = [...others, ...chosen.map(({ dataset }) => ["reference", dataset.reference])];
  keepWith(composer, { references: chosen.map((one) => [one.dataset.reference, one.textContent]) });
}

/** The beginning of the message as displayed. */
function nameOf(page, item) {
  const text = shownText(page.element(item)) ?? item.text;
  const line = text.trim().replace(/\s+/g, " ");
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line || "An earlier task";
}
