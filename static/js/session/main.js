// A conversation's page: this module only puts its parts together. What a conversation does not need is not loaded.
import { Composer } from "../composer.js";
import { Features } from "./features.js";
import { learning } from "./lessons.js";
import { SessionPage } from "./page.js";
import { isBusy } from "./reducer.js";

const $ = (id) => document.getElementById(id);

const LOST = "The server cannot be reached. What you wrote is kept here.";

const LISTED = $("artifacts").querySelectorAll("[data-key]").length; // files that the server put into the panel

const isNews = (state) => state.last > (page.opened ?? Infinity);
const isNewer = (state) => state.last > page.beginning.last; // than what the server drew

/** What the list of sessions has as read needs no word of it. */
function isUnread(state) {
  const row = document.querySelector(`.recent [data-key="${page.id}"]`);
  return isNewer(state) || !row || row.matches(".unread");
}

/** Each module has `start(page)`; it is loaded once, when the state is so or at the first event of that name there. */
const FEATURES = [
  {
    load: () => import("./panel.js"),
    when: (state) => Object.keys(state.artifacts).length !== LISTED,
    on: "click #to-panel, #items [data-artifact], #artifacts [data-key]",
  },
  { load: () => import("./head.js"), when: (state) => state.open.size || isNewer(state) },
  { load: () => import("./questions.js"), when: () => $("items").querySelector(".question"), on: "submit #items form.question" },
  { load: () => import("./queue.js"), when: (state) => page.beginning.queued || isBusy(state) },
  { load: () => import("./stars.js"), on: "click #items .star" },
  { load: () => import("./timeline.js"), when: isNewer },
  { load: () => import("./sending.js"), when: () => localStorage.getItem("unsent"), on: "input #composer" },
  { load: () => import("./sending.js"), on: "click #items [data-again], #items [data-retry], #items [data-take-back]" },
  { load: () => import("./actions.js"), on: "click #items .actions button" },
  { load: () => import("./code.js"), on: "click #items .copy-code" },
  { load: () => import("./stopping.js"), on: "click #composer .stop" },
  { load: () => import("./shown.js"), when: () => navigator.serviceWorker?.controller },
  { load: () => import("./cache.js"), when: isNews },
  { load: () => import("./announcer.js"), when: isNews },
  { load: () => import("./seen.js"), when: isUnread },
  { load: () => import("./switching.js"), on: "click [data-switch]" },
  { load: () => import("./menus.js"), on: "click #switch, #session-more" },
  { load: () => import("./branches.js"), when: () => page.isBack || Object.keys(page.beginning.branches).length },
  { load: () => import("./tree.js"), on: "click [data-act=tree]" },
  { load: () => import("./copying.js"), on: "click [data-act=copy-markdown]" },
  { load: () => import("./sharing.js"), on: "click [data-act=share]" },
];

/** Whoever comes back to the page may have forked the session elsewhere. */
function back() {
  page.isBack = true;
  page.drawSoon();
}

const beginning = JSON.parse($("beginning").textContent);
await learning(beginning.entries)?.catch(() => {}); // without a line it is drawn without that
const page = new SessionPage(beginning);
let sending = null; // asked for once: messages go in the order in which they were written
const send = async (how, message) => {
  try {
    sending ??= import("./sending.js").then(({ start }) => start(page));
    await (await sending)[how](message);
  } catch (problem) {
    sending = null;
    if (message.giveBack) message.giveBack(LOST);
    else page.composer.giveBack(message, LOST);
    throw problem;
  }
};
page.deliver = (message) => send("deliver", message);
page.composer = new Composer($("composer"), (message) => send("say", message));
new Features(page, FEATURES);
await page.prepare();
page.begin();
if (!document.querySelector(".question")) page.composer.words.focus();
document.addEventListener("visibilitychange", back, { once: true });
navigator.serviceWorker?.addEventListener("controllerchange", () => page.drawSoon());
page.composer.editLast = async () => (await import("./editing.js")).editLast(page);
