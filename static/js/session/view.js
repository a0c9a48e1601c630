// From items to the page: each item has one element, redrawn when the reducer has made the item a new one.
import { h, icon, safe } from "../dom.js";
import { dress } from "../times.js";

const CHIPS = 8; // files that are named below an answer; all of them are in the panel

const EXTRAS = {}; // how that is drawn which only some conversations have

/** What else there is to be drawn from now on: a page loads that when it is first needed. */
export function draws(extras) {
  Object.assign(EXTRAS, extras);
}

/** It only draws: what its buttons do is said by whoever listens to them (`data-act`, `data-artifact`, `data-again`, …). */
export class View {
  constructor(list) {
    Object.assign(this, { list, drawn: new Map(), artifacts: {} });
    const noPicture = ({ target }) => target.matches(".thumbnail") && target.replaceWith(icon("picture"));
    list.addEventListener("error", noPicture, { capture: true });
  }

  /** What an element of the list shows. */
  itemOf(element) {
    return [...this.drawn.values()].find((one) => one.element === element)?.item ?? null;
  }

  /** Let the page have these items, and no others. */
  draw({ items, artifacts, ratings }) {
    Object.assign(this, { artifacts, ratings });
    const keys = new Set(items.map((item) => item.key));
    for (const [key, { element }] of this.drawn) {
      if (keys.has(key)) continue;
      element.remove();
      this.drawn.delete(key);
    }
    if (this.list.inert) this.list.replaceChildren(); // what was kept of it stood there until now
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
    else if (item.kind === "switch") EXTRAS.switched?.(element, item);
    else if (!(known && EXTRAS.streamOn?.(element, known.item, item))) this.message(element, item);
    this.drawn.set(item.key, { item, element });
    return element;
  }

  // Messages

  message(element, item) {
    const mine = item.role === "user";
    const body = h("div", { class: "prose", dir: "auto" }, this.words(item));
    element.className = `message from-${item.role}`;
    element.classList.toggle("pending", Boolean(item.pending));
    element.classList.toggle("is-failed", isFailed(item));
    element.dataset.message = item.messageId ?? "";
    if (item.index) element.id = `m-${item.index}`;
    element.replaceChildren(this.meta(item, mine));
    if (body.hasChildNodes()) element.append(body);
    EXTRAS.files?.(element, item);
    this.deliveries(element, item);
    if (item.form) EXTRAS.question?.(element, item);
    if (mine) EXTRAS.own?.(element, item);
    if (isFailed(item)) element.append(h("div", { class: "after" }, again(item.taskId)));
    if (item.outcome === "completed") element.append(rating(item.taskId, this.ratings[item.taskId]));
  }

  meta(item, mine) {
    const mark = (text) => h("span", { class: "mark" }, text);
    return h(
      "div",
      { class: "meta" },
      mine ? null : agentMark(item.agent),
      h("span", { class: "who" }, mine ? "You" : item.agent.name),
      !mine && item.agent.model && h("span", { class: "model" }, item.agent.model),
      timeOf(item.at),
      item.queued && mark("Queued"),
      item.unread && mark("Not read"),
      item.pending && mark(item.waits ? "Waiting for the line" : "Sending…"),
      !item.pending && copyOf("message-actions"),
    );
  }

  words(item) {
    if (item.artifactId && !item.parts.length) return EXTRAS.streamed?.(item) ?? [];
    return item.parts.flatMap((part) => {
      if (part.kind === "text") return [...safe(h("div"), part.html).childNodes];
      if (part.kind !== "data") return [];
      if (part.values.length === 1) return [h("p", { class: "verbatim" }, part.values[0].value)];
      return EXTRAS.values?.(part.values) ?? [];
    });
  }

  deliveries(element, item) {
    const artifacts = (item.files ?? []).map((key) => [key, this.artifacts[key]]).filter(([, one]) => one);
    const worth = artifacts.filter(([, one]) => !repeats(one, item));
    if (!worth.length) return;
    const chip = (key) => h("button", { type: "button", class: "chip", "data-artifact": key });
    const chips = worth.slice(0, CHIPS).map(([key, one]) => safe(chip(key), one.chip));
    if (worth.length > CHIPS) {
      chips.push(chip(worth[CHIPS][0]));
      chips.at(-1).textContent = `${worth.length - CHIPS} more`;
    }
    element.append(h("div", { class: "chips" }, chips));
  }

  // Work

  work(element, item) {
    element.className = "work";
    element.hidden = Boolean(isTrifle(item));
    if (element.hidden) return;
    const draw = (item.ended && this.drawWorked) || this.drawWork;
    if (draw) return draw(element, item, again);
    element.replaceChildren(h("div", { class: "work-line" }));
    this.loadWork(item.ended).then(() => this.itemOf(element) && this.work(element, this.itemOf(element)));
  }

  /** Only a session in which something was worked at needs this, and what goes on only one in which something does. */
  async loadWork(isOver = false) {
    if (isOver) this.drawWorked = (await import("./worked.js")).drawWorked;
    else this.drawWork = (await import("./work.js")).drawWork;
  }
}

/** What the server drew once for all messages (`_message.html`). */
function copyOf(id) {
  return document.getElementById(id).content.firstElementChild.cloneNode(true);
}

/** Stars for an answer: `stars.js` takes them. */
function rating(taskId, given) {
  const row = copyOf("message-rating");
  row.dataset.task = taskId;
  if (given) EXTRAS.rated?.(row, given);
  return row;
}

function again(taskId) {
  return h("button", { type: "button", "data-again": taskId }, "Send again");
}

const isFailed = ({ outcome }) => outcome === "failed" || outcome === "rejected";

/** Work that was over before anybody could see it, and has nothing to tell. */
function isTrifle(item) {
  const { ended, began, steps, outcome } = item;
  return ended && !isFailed(item) && outcome !== "canceled" && !steps.length && new Date(ended) - new Date(began) < 1000;
}

/** The agent's letter in its own hue, as `apps/web/templatetags/parley.py` draws it. */
export function agentMark({ letter, hue }) {
  return h("span", { class: `avatar hue-${hue}`, "aria-hidden": "true" }, letter);
}

function timeOf(at) {
  const time = h("time", { datetime: at });
  dress(time);
  return time;
}

/** Is the artifact nothing but the message's own words? Then it is in the panel alone. */
function repeats(artifact, item) {
  return Boolean(artifact.words) && artifact.words.trim() === item.text.trim();
}
