// From items to the page: each item has one element, redrawn when the reducer has made the item a new one.
import { bytes, h, icon, safe, sign } from "../dom.js";
import { dress, seconds } from "../times.js";
import { stars } from "./stars.js";

const CHIPS = 8; // files that are named below an answer; all of them are in the panel
const CLIPPED = 6000; // characters of one's own message beyond which it is folded

const OUTCOMES = {
  "input-required": ["waiting", "Waiting for you"],
  "auth-required": ["waiting", "Waiting for you"],
  completed: ["done", "Done"],
  failed: ["failed", "Failed"],
  rejected: ["failed", "Declined"],
  canceled: ["canceled", "Stopped"],
  working: ["done", "Step done"],
};

export class View {
  /** `page` offers artifactOf(key), openArtifact(key), again(taskId), retry(messageId), rate (an address),
   *  ratingOf(taskId). */
  constructor(list, page) {
    Object.assign(this, { list, page, drawn: new Map() });
    setInterval(() => this.tick(), 1000);
  }

  draw(items) {
    const keys = new Set(items.map((item) => item.key));
    for (const [key, { element }] of this.drawn) {
      if (keys.has(key)) continue;
      element.remove();
      this.drawn.delete(key);
    }
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
    else if (item.kind === "switch") this.switched(element, item);
    else if (!(known && this.streamOn(element, known.item, item))) this.message(element, item);
    this.drawn.set(item.key, { item, element });
    return element;
  }

  // Messages

  /** More text of a stream: only that is touched. */
  streamOn(element, before, item) {
    if (!before.streaming || !item.streaming) return false;
    element.querySelector(".streaming").textContent = item.text;
    return true;
  }

  message(element, item) {
    const mine = item.role === "user";
    const body = h("div", { class: "prose", dir: "auto" }, this.words(item));
    element.className = `message from-${item.role}`;
    element.classList.toggle("pending", Boolean(item.pending && !item.unsent));
    element.classList.toggle("is-failed", item.outcome === "failed" || item.outcome === "rejected");
    element.dataset.message = item.messageId ?? "";
    element.replaceChildren(this.meta(item, mine));
    if (body.hasChildNodes()) element.append(body);
    const files = item.parts.filter((part) => part.kind === "file").map((part) => fileChip(part));
    if (files.length) element.append(h("div", { class: "chips" }, files));
    this.deliveries(element, item);
    if (item.form) element.append(safe(h("div"), item.form).firstElementChild);
    if (mine && item.text.length > CLIPPED) this.clip(element);
    this.after(element, item);
  }

  meta(item, mine) {
    const mark = (text) => h("span", { class: "mark" }, text);
    return h(
      "div",
      { class: "meta" },
      mine ? null : avatar(item.agent),
      h("span", { class: "who" }, mine ? "You" : item.agent.name),
      timeOf(item.at),
      item.queued && mark("Queued"),
      item.pending && !item.unsent && mark("Sending…"),
    );
  }

  switched(element, item) {
    element.className = "switched";
    element.replaceChildren(avatar(item.agent), h("span", {}, `From here on with ${item.agent.name}`));
  }

  words(item) {
    if (item.streaming || (item.artifactId && !item.parts.length)) {
      return [h("p", { class: item.streaming ? "streaming caret" : "streaming" }, item.text)];
    }
    return item.parts.flatMap((part) => {
      if (part.kind === "text") return [...safe(h("div"), part.html).childNodes];
      if (part.kind !== "data") return [];
      if (part.values.length === 1) return [h("p", { class: "verbatim" }, part.values[0].value)];
      return [h("dl", { class: "values" }, part.values.flatMap(({ name, value }) => [h("dt", {}, name), h("dd", {}, value)]))];
    });
  }

  deliveries(element, item) {
    const artifacts = (item.files ?? []).map((key) => [key, this.page.artifactOf(key)]).filter(([, one]) => one);
    const worth = artifacts.filter(([, one]) => !repeats(one, item));
    if (!worth.length) return;
    const chips = worth.slice(0, CHIPS).map(([key, one]) =>
      h(
        "button",
        { type: "button", class: "chip", onclick: () => this.page.openArtifact(key) },
        icon(one.parts[0]?.mediaType.startsWith("image/") ? "picture" : "file"),
        h("span", { class: "name" }, one.name || "File"),
        h("span", { class: "size" }, bytes(one.parts[0]?.size)),
      ),
    );
    if (worth.length > CHIPS) {
      const open = () => this.page.openArtifact(worth[CHIPS][0]);
      chips.push(h("button", { type: "button", class: "chip", onclick: open }, `${worth.length - CHIPS} more`));
    }
    element.append(h("div", { class: "chips" }, chips));
  }

  clip(element) {
    const more = h("button", { type: "button", class: "quiet small" }, "Show all");
    element.classList.add("clipped");
    more.addEventListener("click", () => {
      element.classList.remove("clipped");
      more.remove();
    });
    element.append(more);
  }

  after(element, item) {
    if (item.unsent) {
      const retry = () => this.page.retry(item.messageId);
      const retrying = h("button", { type: "button", onclick: retry }, "Try again");
      element.append(h("div", { class: "after" }, h("span", { class: "error", role: "alert" }, item.unsent), retrying));
    }
    if (item.outcome === "failed" || item.outcome === "rejected") {
      element.append(h("div", { class: "after" }, this.again(item.taskId)));
    }
    if (item.outcome === "completed") element.append(stars(this.page.rate, item.taskId, this.page.ratingOf(item.taskId)));
  }

  again(taskId) {
    return h("button", { type: "button", onclick: () => this.page.again(taskId) }, "Send again");
  }

  // Work

  work(element, item) {
    element.className = "work";
    element.hidden = isTrifle(item);
    const wasOpen = element.querySelector("details")?.open ?? false;
    const hadFocus = element.contains(document.activeElement);
    const line = item.ended ? this.done(item) : this.running(item);
    if (!item.steps.length) return element.replaceChildren(h("div", { class: "work-line" }, line));
    const fold = icon("fold");
    fold.classList.add("turns");
    const details = h("details", { open: wasOpen }, h("summary", { class: "work-line" }, fold, line), stepsOf(item));
    element.replaceChildren(details);
    if (hadFocus) details.firstElementChild.focus();
    return element;
  }

  running(item) {
    const { progress, making, started, attempt } = item;
    const { done = null, total = null } = progress ?? {};
    const begun = attempt > 1 ? `Started again (attempt ${attempt})` : "Working…";
    const text = started ? (progress?.text ?? (making ? `Writing ${making.name}…` : begun)) : "Waiting to start…";
    return [
      sign("working"),
      h("span", { class: "text" }, text),
      total ? h("progress", { max: total, value: done ?? 0, "aria-label": "Progress" }) : null,
      total ? h("span", { class: "far figures" }, `${done ?? 0} of ${total}`) : null,
      making && !total ? h("span", { class: "far figures" }, bytes(making.size)) : null,
      h("span", { class: "elapsed figures", "data-since": item.began }, elapsed(item.began)),
    ];
  }

  done(item) {
    const [look, word] = OUTCOMES[item.outcome] ?? OUTCOMES.working;
    const count = item.steps.length;
    const steps = count ? `${count} ${count === 1 ? "step" : "steps"} · ` : "";
    const plain = look === "done" || look === "waiting";
    return [
      sign(plain ? "done" : look),
      h("span", { class: "text figures" }, `${plain ? "" : `${word} · `}${steps}${seconds(item.began, item.ended)}`),
      item.outcome === "canceled" ? this.again(item.taskId) : null,
    ];
  }

  tick() {
    for (const element of this.list.querySelectorAll(".elapsed")) element.textContent = elapsed(element.dataset.since);
  }
}

/** Work that was over before anybody could see it, and has nothing to tell. */
function isTrifle({ ended, began, steps, outcome }) {
  const fine = outcome !== "failed" && outcome !== "rejected" && outcome !== "canceled";
  return Boolean(ended) && fine && !steps.length && new Date(ended) - new Date(began) < 1000;
}

/** How long it has been going on; nothing in the first seconds, which need no comment. */
function elapsed(since) {
  return Date.now() - new Date(since) > 3000 ? seconds(since, Date.now()) : "";
}

function stepsOf(item) {
  const one = (step) => {
    if (step.kind !== "tool") return h("li", { class: step.kind }, step.text);
    const said = [step.value, step.result].filter((value) => value && value !== "{}");
    return h(
      "li",
      {},
      h("span", { class: "tool" }, step.name),
      step.isError ? h("span", { class: "error" }, " failed") : null,
      said.map((value) => h("pre", {}, value)),
    );
  };
  return h("ol", { class: "plain steps" }, item.steps.map(one));
}

/** The agent's letter in its own hue, as `apps/web/templatetags/parley.py` draws it. */
function avatar({ letter, hue }) {
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

export function fileChip(part) {
  const inside = [
    icon(part.mediaType?.startsWith("image/") ? "picture" : "file"),
    h("span", { class: "name" }, part.name || "File"),
    h("span", { class: "size" }, bytes(part.size)),
  ];
  if (!part.href) return h("span", { class: "chip" }, inside);
  const elsewhere = part.elsewhere ? { target: "_blank", rel: "noopener noreferrer nofollow" } : { download: true };
  return h("a", { class: "chip", href: part.href, ...elsewhere }, inside);
}
