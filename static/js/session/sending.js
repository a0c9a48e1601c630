// What the person says: shown pale until the log has it, sent again where the line was lost, given back where it is refused.
import { LOST } from "../composer.js";
import { uuid } from "../ids.js";
import "./local.js";
import { reduce } from "./reducer.js";
import { addressedTask, busyTask } from "./tasks.js";

/** What sends for a page; there is one. */
export function start(page) {
  page.sending ??= new Sending(page);
  return page.sending;
}

class Sending {
  constructor(page) {
    this.page = page;
    this.said = new Map(); // messages of this page's that the log has not confirmed, by id
    page.on("entries", (fresh) => {
      for (const { type, message } of fresh) if (type === "user_message") this.said.delete(message.messageId);
    });
    page.on("line", (name) => name === "live" && this.box?.hurry());
    document.getElementById("items").addEventListener("click", ({ target }) => {
      const { again, retry, takeBack } = target.closest("button")?.dataset ?? {};
      if (again) this.again(again);
      if (retry) this.box.hurry();
      if (takeBack) this.box.takeBack(takeBack);
    });
    page.composer.words.addEventListener("input", () => this.isForQueue() && this.queue().catch(() => {}));
    if (this.isForQueue()) this.queue().catch(() => {});
    this.outbox().then((box) => (localStorage.getItem("unsent") ? box?.resume() : null)); // while there is a line to load it by
  }

  /** What keeps messages and sends them; null where it cannot be loaded just now. */
  outbox() {
    this.opening ??= import("../outbox.js").then(
      ({ Outbox }) => (this.box = new Outbox(this.page.id, this)),
      () => (this.opening = null),
    );
    return this.opening;
  }

  /** Does what is written next wait for the work that goes on, or for what waits already? */
  isForQueue() {
    const busy = busyTask(this.page.state);
    const isBusy = busy && busy === addressedTask(this.page.state);
    return isBusy || document.querySelector("#queue ol:not([data-held]) > li");
  }

  /** While there is a line to load it by. It is asked for once: those who wait for it go on in the order of asking. */
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

  /** What was written in the composer: {id, text, files, said, isNow}. */
  async say(message) {
    if (!message.isNow && this.isForQueue()) return (await this.queue()).add(message);
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
    this.page.foresee();
    const box = await this.outbox();
    if (box) await box.send({ id, text, files: files.map(known), said, address });
    else this.refused(message, LOST);
  }

  /** An entry of this page's own: what the log does not say yet. */
  apply(entry) {
    reduce(this.page.state, entry);
    this.page.drawSoon();
  }

  show({ id, text, files }) {
    this.apply({ type: "local:sending", messageId: id, text, files: files.map(known), at: new Date().toISOString() });
  }

  // What the outbox tells of the session's messages, which may be of another tab, or of an earlier visit

  sent({ id }) {
    this.apply({ type: "local:waits", messageId: id, waits: false });
  }

  waits(message) {
    this.show(message);
    this.apply({ type: "local:waits", messageId: message.id, waits: true });
  }

  /** What another tab sent comes by the line. */
  gone(id, answer) {
    if (!answer) this.apply({ type: "local:taken-back", messageId: id });
  }

  /** It goes back to where it was written. */
  refused(message, sentence, field = "") {
    const { giveBack } = this.said.get(message.id) ?? {};
    this.said.delete(message.id);
    this.apply({ type: "local:taken-back", messageId: message.id });
    if (giveBack) giveBack(sentence, field);
    else this.page.composer.giveBack(message, sentence);
    return true;
  }

  /** Have what opened a task done once more. */
  again(taskId) {
    const { state, beginning } = this.page;
    const opening = state.items.find((item) => item.messageId === state.tasks[taskId]?.opensWith);
    const id = uuid();
    const form = new FormData();
    form.append("message", id);
    form.append("task", taskId);
    const giveBack = (sentence) => this.page.complain(sentence);
    this.deliver({ id, form, address: beginning.again, text: opening?.text ?? "", files: [], giveBack });
  }
}

function known({ name, size, type }) {
  return { name, size, type };
}
