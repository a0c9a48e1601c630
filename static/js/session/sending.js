// The person's messages: pale until the log has them, sent again after a lost connection, given back if refused.
import { LOST } from "../compose/composer.js";
import { h, icon } from "../dom.js";
import { bytes } from "../format.js";
import { uuid } from "../requests.js";
import { change, drop, insert, itemOf } from "./state.js";

/** The only sender of a page. */
export function start(page) {
  page.sending ??= new Sending(page);
  return page.sending;
}

class Sending {
  constructor(page) {
    this.page = page;
    this.said = new Map(); // this page's messages that the log has not confirmed, by id
    page.on("patched", ({ put = [] }) => put.forEach(({ messageId }) => this.said.delete(messageId)));
    page.on("line", (name) => name === "live" && this.box?.hurry());
    document.getElementById("items").addEventListener("click", ({ target }) => {
      const { again, retry, takeBack } = target.closest("button")?.dataset ?? {};
      if (again) this.again(again);
      if (retry) this.box.hurry();
      if (takeBack) this.box.takeBack(takeBack);
    });
    page.composer.words.addEventListener("input", () => this.isForQueue() && this.queue().catch(() => {}));
    if (this.isForQueue()) this.queue().catch(() => {});
    this.outbox().then((box) => (localStorage.getItem("unsent") ? box?.resume() : null)); // while there is a connection to load it by
  }

  /** Keeps messages and sends them; null if it cannot be loaded now. */
  outbox() {
    this.opening ??= import("../compose/outbox.js").then(
      ({ Outbox }) => (this.box = new Outbox(this.page.id, this)),
      () => (this.opening = null),
    );
    return this.opening;
  }

  /** Does the next message wait for running work, or for queued messages? */
  isForQueue() {
    const busy = busyTask(this.page.state);
    const isBusy = busy && busy === addressedTask(this.page.state);
    return isBusy || document.querySelector("#queue ol:not([data-held]) > li");
  }

  /** While there is a connection to load it by. Loaded once: waiting callers continue in order. */
  queue() {
    this.queueing ??= import("./queue.js").then(
      ({ start }) => start(this.page),
      (problem) => {
        this.queueing = null;
        throw problem;
      },
    );
    return this.queueing;
  }

  /** Does Enter send into the running work, whose agent reads it there? */
  get steers() {
    return Boolean(this.page.composer.form.querySelector(".send-other[data-queues]"));
  }

  /** A message of the composer: {id, text, files, said, isOther}. */
  async say(message) {
    const mentions = message.text.includes("@") ? await this.page.composer.mentions : null;
    const isForAnother = Boolean(mentions?.addressee(message.text)); // who does not wait for this one
    const waits = this.steers ? message.isOther : !message.isOther && this.isForQueue();
    if (waits && !isForAnother) return (await this.queue()).add(message);
    const task = addressedTask(this.page.state);
    const said = task ? [...message.said, ["task", task.id]] : message.said;
    return this.deliver({ ...message, said, giveBack: (sentence) => this.page.composer.giveBack(message, sentence) });
  }

  /** Send a message: {id, text, files, said or form, address?, giveBack(sentence)}. */
  async deliver(message) {
    const { id, text, files, form, said = [...form], address = this.page.beginning.say } = message;
    this.said.set(id, message);
    this.show(message);
    this.page.end.go();
    this.page.view.loadWork().catch(() => {}); // which comes next
    const box = await this.outbox();
    if (box) await box.send({ id, text, files: files.map(known), said, address });
    else this.refused(message, LOST);
  }

  /** Show the message until the log has it. */
  show({ id, text, files }) {
    const { state } = this.page;
    const key = keyOf(id);
    const item = { kind: "message", key, role: "user", messageId: id, text, files: files.map(known), pending: true };
    if (!itemOf(state, key)) insert(state, { ...item, at: new Date().toISOString(), html: drawn(item) });
    this.page.drawSoon();
  }

  waitFor({ id }, waits) {
    const item = this.pendingItem(id);
    if (item) change(this.page.state, item.key, { waits, html: drawn({ ...item, waits }) });
    this.page.drawSoon();
  }

  takenBack(id) {
    const item = this.pendingItem(id);
    if (item) drop(this.page.state, item.key);
    this.page.drawSoon();
  }

  pendingItem(id) {
    const item = itemOf(this.page.state, keyOf(id));
    return item?.pending ? item : null;
  }

  // Events of the outbox for the session's messages, which may be from another tab or an earlier visit

  sent(message) {
    this.waitFor(message, false);
  }

  waits(message) {
    this.show(message);
    this.waitFor(message, true);
  }

  /** A message that another tab sent comes by the connection. */
  gone(id, answer) {
    if (!answer) this.takenBack(id);
  }

  /** The message goes back to its composer. */
  refused(message, sentence, field = "") {
    const { giveBack } = this.said.get(message.id) ?? {};
    this.said.delete(message.id);
    this.takenBack(message.id);
    if (giveBack) giveBack(sentence, field);
    else this.page.composer.giveBack(message, sentence);
    return true;
  }

  /** Repeat the message that opened a task. */
  again(taskId) {
    const { state, beginning } = this.page;
    const opening = state.items.find((item) => item.role === "user" && item.taskId === taskId);
    const id = uuid();
    const said = [["message", id], ["task", taskId]];
    const giveBack = (sentence) => this.page.complain(sentence);
    this.deliver({ id, said, address: beginning.again, text: opening?.text ?? "", files: [], giveBack });
  }
}

const keyOf = (messageId) => `message:${messageId}`;

function known({ name, size, type }) {
  return { name, size, type };
}

/** As the server draws it (`conversations/pages/session/messages.py`), with its actions while it waits. */
function drawn({ messageId, text, files, waits }) {
  const words = text && h("div", { class: "prose", dir: "auto" }, h("p", { class: "verbatim" }, text));
  const chips = files.length > 0 && h("div", { class: "chips" }, files.map(chip));
  const act = (name, attribute) => h("button", { type: "button", class: "quiet small", [attribute]: messageId }, name);
  const acts = waits && h("div", { class: "after" }, act("Try again", "data-retry"), act("Take back", "data-take-back"));
  return h("div", {}, words || null, chips, acts).innerHTML;
}

function chip({ name, size, type }) {
  const sign = icon(type?.startsWith("image/") ? "picture" : "file");
  return h("span", { class: "chip" }, sign, h("span", { class: "name" }, name || "File"), h("span", { class: "size" }, bytes(size)));
}

// The task that a message belongs to

/** The newest task that waits for the person; and the one that works. */
export function waitingTask({ open }) {
  return open.findLast(({ waits }) => waits);
}

export function busyTask({ open }) {
  return open.findLast(({ waits }) => !waits);
}

/** The task of the next message: one of the session's agent. Other tasks are answered by their forms. */
function addressedTask({ open, agent }) {
  const here = open.filter((task) => !task.agent || task.agent === agent?.slug);
  return here.findLast(({ waits }) => waits) ?? here.at(-1);
}
