// From items to the page: each item has one element, redrawn when a patch has replaced the item.
import { h, icon, safe } from "../dom.js";
import { localizeTime } from "../format.js";
import { drawStreaming } from "./streaming.js";

const REST = 2000; // ms until a failed load is retried
const forms = new Map(); // of questions: they keep their input when redrawn
const reader = Number(document.getElementById("session")?.dataset.reader); // the key of who reads the page

/** Only draws. Other modules handle its buttons (`data-act`, `data-artifact`, `data-again`, …). */
export class View {
  constructor(list) {
    Object.assign(this, { list, drawn: new Map() });
    const noPicture = ({ target }) => target.matches(".thumbnail") && target.replaceWith(icon("picture"));
    list.addEventListener("error", noPicture, { capture: true });
  }

  itemOf(element) {
    return [...this.drawn.values()].find((one) => one.element === element)?.item ?? null;
  }

  /** Show these items. Unless the reader `follows` the end, long texts stay open. */
  draw({ items, ratings, follows = true }) {
    Object.assign(this, { ratings, follows });
    const keys = new Set(items.map((item) => item.key));
    for (const [key, { element }] of this.drawn) {
      if (keys.has(key)) continue;
      element.remove();
      this.drawn.delete(key);
    }
    if (this.list.inert) this.list.replaceChildren(); // replaces the content of a kept page
    this.list.inert = false;
    let before = null;
    for (const item of items) {
      const element = this.drawOne(item);
      const place = before ? before.nextElementSibling : this.list.firstElementChild;
      if (place !== element) this.list.insertBefore(element, place);
      before = element;
    }
  }

  drawOne(item) {
    const known = this.drawn.get(item.key);
    if (known?.item === item) return known.element;
    const element = known?.element ?? h("li");
    if (item.kind === "work") this.work(element, item);
    else if (item.kind === "switch") switched(element, item);
    else if (item.kind === "guard") guarded(element, item);
    else if (item.kind === "made") this.made(element, item, known?.item);
    else if (item.kind === "app") this.app(element);
    else if (known?.item.streaming && item.streaming) drawStreaming(element.querySelector(".streaming"), item.text);
    else this.message(element, item);
    this.drawn.set(item.key, { item, element });
    return element;
  }

  message(element, item) {
    element.className = `message from-${item.role}`;
    element.classList.toggle("pending", Boolean(item.pending));
    element.classList.toggle("is-failed", item.outcome === "failed");
    element.classList.toggle("is-rejected", item.outcome === "rejected");
    element.dataset.message = item.messageId ?? "";
    if (item.index) element.id = `m-${item.index}`;
    safe(element, item.html ?? "").prepend(meta(item));
    if (!("html" in item)) element.append(unfinished(item));
    if (item.isDecided) signed(element);
    if (item.form) element.append(question(item));
    if (isFailed(item)) element.append(h("div", { class: "after" }, again(item.taskId)));
    if (item.outcome === "completed") element.append(rating(item.taskId, this.ratings[item.taskId]));
  }

  work(element, item) {
    element.className = "work";
    element.hidden = Boolean(isTrifle(item));
    if (element.hidden) return;
    const draw = item.ended ? this.drawWorked : this.drawWork;
    if (draw) return draw(element, item, again);
    if (!element.firstChild) element.append(h("div", { class: "work-line" }));
    const redraw = () => this.itemOf(element) && this.work(element, this.itemOf(element));
    const load = item.ended ? this.loadWorked() : this.loadWork();
    load.then(redraw, () => setTimeout(redraw, REST));
  }

  made(element, item, before = null) {
    if (this.drawMade) return this.drawMade(element, item, before, this.follows);
    const redraw = () => this.itemOf(element) && this.made(element, this.itemOf(element));
    this.loadMade().then(redraw, () => setTimeout(redraw, REST));
  }

  async loadMade() {
    ({ drawMade: this.drawMade } = await import("./made.js"));
  }

  /** A page of a tool server. */
  app(element) {
    const draw = ({ drawApp }) => this.itemOf(element) && drawApp(element, this.itemOf(element));
    import("./apps.js").then(draw, () => setTimeout(() => this.app(element), REST));
  }

  /** Only sessions with tasks need this. */
  async loadWorked() {
    ({ drawWorked: this.drawWorked } = await import("./worked.js"));
  }

  /** Also loads what shows finished work: running work will finish. */
  async loadWork() {
    const [{ drawWork }] = await Promise.all([import("./work.js"), this.loadWorked()]);
    this.drawWork = drawWork;
  }
}

/** Who decided about a tool call, and when. */
function signed(element) {
  const who = element.querySelector("[data-person]");
  if (Number(who.dataset.person) === reader) who.textContent = "You";
  localizeTime(element.querySelector(".decided time"));
}

/** What the server drew once for all messages (`_message.html`). */
function copyOf(id) {
  return document.getElementById(id).content.firstElementChild.cloneNode(true);
}

/** The author and time, and the buttons. */
function meta({ role, agent, by, at, queued, readAt, unread, unfinished, pending, waits, messageId, used }) {
  const mark = (text) => h("span", { class: "mark" }, text);
  const isOwn = role === "user" && (!by || by.id === reader);
  const who = isOwn ? h("span", { class: "who" }, "You") : [...safe(h("span"), (by ?? agent).mark).children];
  const time = h("time", { datetime: at });
  localizeTime(time);
  return h(
    "div",
    { class: "meta" },
    who,
    time,
    used && h("span", { class: "used figures" }, used),
    queued && mark("Waiting to be read"),
    readAt && mark(`Read at step ${readAt}`),
    unread && mark("Not read yet"),
    unfinished && mark("Unfinished"),
    pending && mark(waits ? "Waiting for connection" : "Sending…"),
    !pending && actions(isOwn ? "own" : role === "agent" && messageId ? "answer" : ""), // none for text that still streams
  );
}

/** The buttons that all messages have, and those of `kind`. */
function actions(kind) {
  const row = copyOf("message-actions");
  for (const act of row.querySelectorAll(`[data-for]:not([data-for="${kind}"])`)) act.remove();
  return row;
}

/** Text that streams, or that was never completed. */
function unfinished({ streaming, text }) {
  const words = h("p", { class: streaming ? "streaming caret" : "streaming" });
  if (streaming) drawStreaming(words, text);
  else words.textContent = text;
  return h("div", { class: "prose", dir: "auto" }, words);
}

function question({ key, form }) {
  if (forms.get(key)?.html !== form) forms.set(key, { html: form, drawn: safe(h("div"), form).firstElementChild });
  return forms.get(key).drawn;
}

function switched(element, { agent }) {
  element.className = "switched";
  element.replaceChildren(safe(h("span"), agent.mark).firstElementChild, h("span", {}, `Continued with ${agent.name}`));
}

/** What a guardrail decided, in one quiet line. */
function guarded(element, { text }) {
  element.className = "guarded muted small";
  element.replaceChildren(h("span", { dir: "auto" }, text));
}

/** The thumbs of an answer; `thumbs.js` handles them. */
function rating(taskId, given) {
  const row = copyOf("message-rating");
  row.dataset.task = taskId;
  if (given) import("./thumbs.js").then(({ showRating }) => showRating(row, given), () => {});
  return row;
}

function again(taskId) {
  return h("button", { type: "button", "data-again": taskId }, "Send again");
}

const isFailed = ({ outcome }) => outcome === "failed" || outcome === "rejected";

/** Work that ended at once, without details. */
function isTrifle(item) {
  const { ended, began, steps, outcome } = item;
  return ended && !isFailed(item) && outcome !== "canceled" && !steps.length && new Date(ended) - new Date(began) < 1000;
}
