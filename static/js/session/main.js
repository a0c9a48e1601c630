// A conversation's page: this module only puts its parts together. What a conversation does not need is not loaded.
import { Composer, LOST } from "../composer.js";
import { Features } from "./features.js";
import { learning } from "./lessons.js";
import { SessionPage } from "./page.js";
import { isBusy } from "./reducer.js";

const $ = (id) => document.getElementById(id);

const isNews = (state) => state.last > (page.opened ?? Infinity);
const hasUnsent = () => localStorage.unsent;

/** What the list of sessions has as read needs no word of it. */
function isUnread(state) {
  const row = document.querySelector(`.recent [data-key="${page.id}"]`);
  return state.last > page.beginning.last || !row || row.matches(".unread");
}

/** Each module has `start(page)`; it is loaded once, when the state is so or at the first event of that name there. */
const FEATURES = [
  { load: () => import("./panel.js"), on: { click: "#to-panel, #items [data-artifact], .artifact-open" } },
  { load: () => import("./unfinished.js"), when: ({ artifacts }) => Object.keys(artifacts).length },
  { load: () => import("./turned.js"), when: ({ title, agent }) => title || agent.slug !== page.beginning.agent.slug },
  { load: () => import("./asked.js"), when: () => $("items").querySelector(".question") },
  { load: () => import("./questions.js"), on: { input: "#items form.question", submit: "#items form.question" } },
  { load: () => import("./queue.js"), when: hasUnsent, on: { click: "#queued button", focusin: "#queued" } },
  { load: () => import("./stars.js"), on: { click: "#items .star" } },
  { load: () => import("./old.js"), when: () => page.old },
  { load: () => import("./beside.js"), when: () => page.old || page.hasTurned },
  {
    load: () => import("./sending.js"),
    when: hasUnsent,
    on: { input: "#composer", click: "#items [data-again], #items [data-retry], #items [data-take-back]" },
  },
  { load: () => import("./actions.js"), on: { click: "#items .actions button" } },
  { load: () => import("./code.js"), on: { click: "#items .copy-code, #items .show-all" } },
  { load: () => import("./stopping.js"), on: { click: "#composer .stop" } },
  { load: () => import("./shown.js"), when: () => navigator.serviceWorker?.controller },
  { load: () => import("./cache.js"), when: (state) => isNews(state) && !isBusy(state) },
  { load: () => import("./announcer.js"), when: (state) => page.hasTurned && isNews(state) },
  { load: () => import("./seen.js"), when: isUnread },
  { load: () => import("./menus.js"), on: { click: "#switch, #session-more" } }, // and what they offer
  { load: () => import("./branches.js"), when: () => page.isBack || Object.keys(page.beginning.branches).length },
];

/** Whoever comes back to the page may have forked the session elsewhere. */
function back() {
  page.isBack = true;
  page.drawSoon();
}

/** When the person or the line goes away in the middle of a turn, what came of it is kept. */
function keep() {
  if (isNews(page.state)) import("./cache.js").then(({ start }) => start(page), () => {});
}

const old = new Promise((told) => navigator.serviceWorker?.addEventListener("message", ({ data }) => data.old && told(data)));
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
page.elsewhere = new BroadcastChannel(`parley.queue.${page.id}`); // other tabs of it
page.elsewhere.onmessage = () => import("./renewing.js").then(({ renewQueue }) => renewQueue(), () => {});
page.features = new Features(page, FEATURES);
await page.prepare();
page.begin();
old.then((data) => {
  page.old = data;
  page.drawSoon();
});
if (!document.querySelector(".question")) page.composer.words.focus();
document.addEventListener("visibilitychange", back, { once: true });
document.addEventListener("visibilitychange", keep);
page.on("line", (name) => name === "lost" && keep());
navigator.serviceWorker?.addEventListener("controllerchange", () => page.drawSoon());
page.composer.editLast = async () => (await import("./editing.js")).editLast(page);
