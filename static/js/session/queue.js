// What is said while an agent works waits above the composer, on the server, and is sent when that is done. Enter queues;
// "Send now" says it into the work that goes on.
import { api } from "../api.js";
import { h, icon } from "../dom.js";
import { Unreachable } from "../post.js";
import { toast } from "../toast.js";
import { addressedTask, busyTask } from "./standing.js";

export function start(page) {
  page.queue = new Queue(page, document.getElementById("queue"));
}

class Queue {
  constructor(page, place) {
    Object.assign(this, { page, place, items: [], held: "", editing: null, isNow: false, adding: [] });
    this.path = `/sessions/${page.id}/queue`;
    this.elsewhere = "BroadcastChannel" in globalThis ? new BroadcastChannel(`parley.queue.${page.id}`) : null;
    if (this.elsewhere) this.elsewhere.onmessage = () => this.read();
    const say = page.composer.send;
    page.composer.send = (message) => (this.takes() ? this.add(message) : say(message));
    this.button = this.sendNow();
    place.addEventListener("click", (event) => this.clicked(event));
    page.on("entries", (fresh) => this.heard(fresh));
    page.on("drawn", () => this.dress());
    page.on("line", (name) => name === "live" && this.back());
    document.addEventListener("visibilitychange", () => document.hidden || this.read());
    this.dress();
    this.read();
    if (localStorage.getItem("unsent")) this.outbox().then((box) => box?.resume());
  }

  /** What keeps a message until the server has it; null where it cannot be loaded just now. */
  outbox() {
    this.opening ??= import("../outbox.js").then(
      ({ Outbox }) => (this.box = new Outbox(`${this.page.id}/queue`, this)),
      () => (this.opening = null),
    );
    return this.opening;
  }

  // The composer

  get isBusy() {
    const busy = busyTask(this.page.state);
    return Boolean(busy) && addressedTask(this.page.state) === busy;
  }

  /** Is what is sent next for the queue? */
  takes() {
    const isNow = this.isNow;
    this.isNow = false;
    return !isNow && (this.isBusy || (this.items.length > 0 && !this.held));
  }

  sendNow() {
    const { form, words } = this.page.composer;
    const now = () => {
      this.isNow = true;
      form.requestSubmit();
      words.focus();
    };
    words.addEventListener("input", () => (this.isNow = false));
    words.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.isNow = true;
    }, { capture: true });
    const about = { type: "button", class: "quiet small send-now", title: "Say it now (Ctrl or Cmd and Enter)", hidden: true };
    const button = h("button", { ...about, onclick: now }, "Send now");
    form.querySelector(".send").before(button);
    return button;
  }

  dress() {
    const { form, words } = this.page.composer;
    const { isBusy } = this;
    if (!isBusy && this.button === document.activeElement) words.focus();
    this.button.hidden = !isBusy;
    const name = isBusy ? "Send when the work is done" : "Send";
    const send = form.querySelector(".send");
    if (send.title !== name) send.title = send.querySelector(".visually-hidden").textContent = name;
    if (isBusy) form.querySelector(".composer-hint").textContent = "What you send waits until this is done";
  }

  /** Queue a message of the composer's. */
  async add({ id, text, files, said }) {
    const message = { id, text, files: files.map(({ name, size, type }) => ({ name, size, type })), said };
    this.waits(message);
    const box = await this.outbox();
    if (box) await box.send({ ...message, address: this.page.beginning.queue });
    else this.refused(message, new Unreachable().message);
  }

  // What the outbox tells

  waits(message) {
    if (this.adding.some(({ id }) => id === message.id)) return;
    this.adding.push(message);
    this.draw();
  }

  async sent(message) {
    this.page.announce("It waits until the work is done.");
    await this.read();
    this.over(message);
  }

  refused(message, sentence) {
    this.over(message);
    this.page.composer.giveBack(message, sentence);
    return true;
  }

  over({ id }) {
    this.adding = this.adding.filter((one) => one.id !== id);
    this.draw();
    this.elsewhere?.postMessage("changed");
  }

  back() {
    this.read();
    this.box?.hurry();
  }

  // What waits

  heard(fresh) {
    const counts = ({ type, progress }) => type === "user_message" || (type === "agent_status" && !progress);
    if (!(this.items.length || this.adding.length) || !fresh.some(counts)) return;
    this.isThere(fresh.map(({ message }) => message?.messageId));
    this.read();
  }

  /** The server has these, whoever sent them. */
  isThere(ids) {
    this.adding = this.adding.filter(({ id }) => !ids.includes(id));
  }

  async read() {
    await this.done(api("GET", this.path)).catch(() => {}); // it is read again when the line is back
  }

  /** What a request answered is how it is now. */
  async done(asking) {
    const { items, held } = await asking;
    Object.assign(this, { items, held });
    this.isThere(items.map(({ messageId }) => messageId));
    if (this.editing && !items.some(({ id }) => id === this.editing)) this.late(this.place.querySelector("textarea").value);
    this.draw();
  }

  /** It was sent while somebody changed it: what they wrote is not lost. */
  late(text) {
    this.editing = null;
    this.page.composer.giveBack({ text, files: [], said: [] }, "That was sent meanwhile. What you changed is here.");
  }

  draw() {
    const focused = this.place.contains(document.activeElement) ? document.activeElement : null;
    const wanted = focused && { id: focused.closest("li")?.dataset.id, act: focused.dataset.act };
    const open = this.editing && this.place.querySelector(`[data-id="${this.editing}"]`);
    const rows = this.items.map((item) => (item.id === this.editing && open ? open : this.row(item)));
    rows.push(...this.adding.map(({ text, files }) => h("li", { class: "pending" }, words(text, files))));
    if (!rows.length) this.place.replaceChildren();
    else this.place.replaceChildren(h("section", { class: "queue", "aria-label": "Waiting to be sent" }, this.head(), h("ol", { class: "plain" }, rows)));
    if (wanted && !this.place.contains(focused)) this.focus(wanted);
    else if (wanted) focused.focus();
  }

  focus({ id, act }) {
    const row = this.place.querySelector(`[data-id="${id}"]`);
    (row?.querySelector(`[data-act="${act}"]`) ?? row?.querySelector("button") ?? this.page.composer.words).focus();
  }

  head() {
    const { name } = this.page.state.agent;
    const stuck = this.items.find(({ problem }) => problem);
    const held = stuck ? `This could not be sent: ${stuck.problem}` : this.held;
    const note = held || `Sent when ${name} is done`;
    return h("p", { class: `queue-head small${held ? " is-held" : ""}` }, icon(held ? "waiting" : "queue"), h("span", {}, note));
  }

  row(item) {
    const files = item.parts.filter((part) => part.filename);
    const button = (act, name, sign) =>
      h("button", { type: "button", class: "quiet small", "data-act": act, title: name }, icon(sign), h("span", { class: "visually-hidden" }, name));
    return h(
      "li",
      { "data-id": item.id, class: item.isBeingSent ? "pending" : "" },
      words(item.content, files.map(({ filename }) => ({ name: filename }))),
      h("span", { class: "queue-acts" }, button("edit", "Edit", "edit"), button("now", "Send now", "send"), button("remove", "Delete", "close")),
    );
  }

  // What the person does with it

  clicked({ target }) {
    const button = target.closest("[data-act]");
    if (!button) return;
    const item = this.items.find(({ id }) => id === button.closest("li").dataset.id);
    if (item) this.act(button.dataset.act, item);
  }

  async act(name, item) {
    if (name === "edit") return this.edit(item);
    const place = this.items.indexOf(item);
    try {
      if (name === "now") {
        await api("POST", `${this.path}/${item.id}/send`);
        await this.read();
      } else await this.done(api("DELETE", `${this.path}/${item.id}`));
      this.after(place, name, item);
    } catch (problem) {
      this.page.complain(problem.message);
      await this.read();
    }
    this.elsewhere?.postMessage("changed");
  }

  /** The focus goes to what took the place of what is gone. */
  after(place, name, item) {
    const row = this.place.querySelectorAll("li[data-id]")[place] ?? [...this.place.querySelectorAll("li[data-id]")].at(-1);
    (row?.querySelector(`[data-act="${name}"]`) ?? this.page.composer.words).focus();
    if (name !== "remove") return;
    const isWords = item.parts.every((part) => !part.filename);
    toast("Deleted. It is not sent.", isWords ? { name: "Undo", run: () => this.putBack(item) } : null);
  }

  async putBack({ content }) {
    try {
      await this.done(api("POST", this.path, { text: content }));
    } catch (problem) {
      this.page.complain(problem.message);
    }
    this.elsewhere?.postMessage("changed");
  }

  edit(item) {
    const row = this.place.querySelector(`[data-id="${item.id}"]`);
    const field = h("textarea", { rows: 2, dir: "auto", "aria-label": "Message that waits" });
    field.value = item.content;
    const close = () => {
      this.editing = null;
      this.draw();
      this.focus({ id: item.id, act: "edit" });
    };
    const save = (event) => {
      event?.preventDefault();
      this.save(item, field.value, close);
    };
    field.addEventListener("keydown", (event) => {
      if (event.isComposing || !["Enter", "Escape"].includes(event.key) || event.shiftKey) return;
      event.preventDefault();
      event.stopPropagation();
      if (event.key === "Enter") save();
      else close();
    });
    const foot = h("span", { class: "queue-acts" }, h("button", { class: "small primary" }, "Save"), h("button", { type: "button", class: "small quiet", onclick: close }, "Cancel"));
    this.editing = item.id;
    row.replaceChildren(h("form", { class: "queue-edit", onsubmit: save }, field, foot));
    field.focus();
  }

  async save(item, text, close) {
    try {
      Object.assign(this, await api("PATCH", `${this.path}/${item.id}`, { text }));
      close();
    } catch (problem) {
      if (problem.status === 404) await this.read();
      else this.page.complain(problem.message);
    }
    this.elsewhere?.postMessage("changed");
  }
}

function words(text, files) {
  const named = files.map(({ name }) => h("span", { class: "queue-file" }, icon("file"), h("bdi", {}, name)));
  return h("span", { class: "queue-text" }, h("span", { dir: "auto" }, text), named);
}
