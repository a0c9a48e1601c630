// A conversation's page. `page.js` holds shared state, `state.js` changes it, and `view.js` draws the window of `window.js`.
// Other modules are loaded when they are needed.
import { Composer, LOST } from "../compose/composer.js";
import { SessionPage } from "./page.js";
import { isBusy } from "./state.js";

const $ = (id) => document.getElementById(id);

const isNews = (state) => state.last > (page.opened ?? Infinity);
const hasUnsent = () => localStorage.unsent;

/** A session that the list already shows as read need not be marked again. */
function isUnread(state) {
  const row = document.querySelector(`.recent [data-session="${page.id}"]`)?.parentElement;
  return state.last > page.beginning.last || !row || row.matches(".unread");
}

/** Each is loaded and started (`start`, or the named function) once: when the state requires it, or at the first such event. */
const FEATURES = [
  { load: () => import("./panel.js"), on: { click: "#to-panel, #items [data-artifact], .artifact-open" } },
  { load: () => import("./making.js"), when: ({ files, items }) => files.size || items.some(({ isMaking }) => isMaking) },
  { load: () => import("./title.js"), when: ({ title, agent }) => title || agent.slug !== page.beginning.agent.slug },
  { load: () => import("./apps.js"), when: ({ items }) => items.some(({ kind }) => kind === "app") },
  { load: () => import("./questions.js"), when: () => $("items").querySelector(".question") },
  { load: () => import("./answers.js"), on: { input: "#items form.question", submit: "#items form.question" } },
  { load: () => import("./queue.js"), when: hasUnsent, on: { click: "#queued button", focusin: "#queued" } },
  { load: () => import("./thumbs.js"), on: { click: "#items .thumb" } },
  { load: () => import("./cache.js"), start: "startOld", when: () => page.old },
  { load: () => import("./refresh.js"), when: () => page.old || page.hasTurned },
  { load: () => import("./model.js"), on: { input: "#model" } }, // before what all of the composer needs
  {
    load: () => import("./sending.js"),
    when: hasUnsent,
    on: { input: "#composer", click: "#items [data-again], #items [data-retry], #items [data-take-back]" },
  },
  { load: () => import("./actions.js"), on: { click: "#items .actions button, #items .show-all, #items [data-run]" } },
  { load: () => import("./suggestions.js"), on: { click: "#items [data-begin]" } },
  {
    load: () => import("./stopping.js"),
    when: ({ items }) => items.some(({ stops, ended }) => stops && !ended),
    on: { click: "#composer :is(.stop, .stop-step)" },
  },
  { load: () => import("./shown.js"), when: () => navigator.serviceWorker?.controller },
  { load: () => import("./cache.js"), when: (state) => isNews(state) && !isBusy(state) },
  { load: () => import("./announcer.js"), when: (state) => page.hasTurned && isNews(state) },
  { load: () => import("./seen.js"), when: isUnread },
  { load: () => import("./header.js"), on: { click: "#switch, #session-more" } },
  { load: () => import("./branches.js"), when: () => page.isBack || Object.keys(page.beginning.branches).length },
];

class Features {
  constructor(page, features) {
    this.page = page;
    this.asleep = new Set(features);
    page.on("drawn", () => this.look());
    for (const name of ["click", "submit", "input", "focusin"]) document.addEventListener(name, (event) => this.meet(event), { capture: true });
  }

  look() {
    for (const feature of this.asleep) if (feature.when?.(this.page.state)) this.wake(feature);
  }

  /** The first event of a feature waits until its module is loaded; later ones until then are dropped as repeats. */
  async meet(event) {
    for (const feature of this.asleep) {
      const { type } = event;
      const target = feature.on?.[type] && event.target.closest(feature.on[type]);
      if (!target) continue;
      if (type === "input" || type === "focusin") return this.wake(feature); // the module handles the next events itself
      event.preventDefault();
      event.stopImmediatePropagation();
      if (feature.isHeld) continue;
      feature.isHeld = true;
      const isThere = await this.wake(feature);
      feature.isHeld = false;
      if (!isThere) continue;
      if (type === "click") target.click();
      else target.requestSubmit(event.submitter);
    }
  }

  wake(feature) {
    feature.waking ??= this.start(feature);
    return feature.waking;
  }

  async start(feature) {
    try {
      const { [feature.start ?? "start"]: start } = await feature.load();
      this.asleep.delete(feature);
      start(this.page);
      return true;
    } catch (problem) {
      if (!(problem instanceof TypeError)) throw problem;
      setTimeout(() => (feature.waking = null), 2000);
      this.page.complain("Part of this page could not be loaded. Check your connection and try again.");
      return false;
    }
  }
}

/** The person may have forked the session elsewhere. */
function back() {
  page.isBack = true;
  page.drawSoon();
}

/** Keep what there is of an unfinished turn when the person or the connection leaves. */
function keep() {
  if (isNews(page.state)) import("./cache.js").then(({ start }) => start(page), () => {});
}

const old = new Promise((told) => navigator.serviceWorker?.addEventListener("message", ({ data }) => data.old && told(data)));
const beginning = JSON.parse($("beginning").textContent);
const page = new SessionPage(beginning);
let sending = null; // loaded once: messages are sent in the order in which they were written
const send = async (how, message) => {
  page.loadRefresh();
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
page.elsewhere = new BroadcastChannel(`parley.queue.${page.id}`); // other tabs with this session
page.elsewhere.onmessage = () => import("./refresh.js").then(({ renewQueue }) => renewQueue(), () => {});
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
import("./keys.js").then(({ start }) => start(page), () => {});
page.composer.editLast = async () => (await import("./editing.js")).editLast(page);
