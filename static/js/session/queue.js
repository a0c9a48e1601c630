// Messages that wait while an agent works, above the composer. The server keeps and draws them (`_queue.html`). This module handles
// their buttons, and messages that are being queued.
import { LOST } from "../compose/composer.js";
import { draftOf, dropDraft, keepDraft } from "../compose/drafts.js";
import { h, icon } from "../dom.js";
import { api } from "../requests.js";
import { toast } from "../toast.js";
import { renewQueue } from "./refresh.js";

/** The only queue of a page. */
export function start(page) {
  page.queue ??= new Queue(page, document.getElementById("queued"), document.getElementById("queueing"));
  return page.queue;
}

class Queue {
  /** `list` is drawn by the server, `coming` has messages that are not yet in it. */
  constructor(page, list, coming) {
    Object.assign(this, { page, list, coming, adding: [], open: null, underWay: new Set() }); // `open`: the row that somebody edits
    this.path = `/sessions/${page.id}/queue`;
    list.addEventListener("click", ({ target }) => {
      const act = target.closest("[data-act]");
      if (act) this.act(act.dataset.act, act.closest("li"));
    });
    list.addEventListener("renewed", ({ detail }) => this.renewed(detail));
    page.on("patched", ({ put = [] }) => this.isThere(put.map(({ messageId }) => messageId)));
    page.on("line", (name) => name === "live" && this.box?.hurry());
    if (localStorage.getItem("unsent")) this.outbox().then((box) => box?.resume());
  }

  // Being queued

  /** Keeps a message until the server has it; null if it cannot be loaded now. */
  outbox() {
    this.opening ??= import("../compose/outbox.js").then(
      ({ Outbox }) => (this.box = new Outbox(`${this.page.id}/queue`, this)),
      () => (this.opening = null),
    );
    return this.opening;
  }

  /** Queue a message of the composer. */
  async add({ id, text, files, said }) {
    const message = { id, text, files: files.map(({ name, size, type }) => ({ name, size, type })), said };
    this.waits(message);
    const box = await this.outbox();
    if (box) await box.send({ ...message, address: this.page.beginning.queue });
    else this.refused(message, LOST);
  }

  waits(message) {
    if (this.adding.some(({ id }) => id === message.id)) return;
    this.adding.push(message);
    this.draw();
  }

  async sent({ id }) {
    this.page.announce("Queued until the agent has finished.");
    await this.changed();
    this.isThere([id]);
  }

  /** The server draws what another tab queued. */
  gone(id, answer) {
    if (!answer) this.isThere([id]);
  }

  refused(message, sentence) {
    this.isThere([message.id]);
    this.page.composer.giveBack(message, sentence);
    return true;
  }

  /** Remove messages that the server now has. */
  isThere(ids) {
    const left = this.adding.filter(({ id }) => !ids.includes(id));
    if (left.length === this.adding.length) return;
    this.adding = left;
    this.draw();
  }

  draw() {
    this.coming.replaceChildren(...this.adding.map(({ text, files }) => h("li", { class: "pending" }, words(text, files))));
  }

  // Redrawing the queue

  /** This page changed a message. */
  async changed() {
    this.page.elsewhere.postMessage("changed");
    await renewQueue();
  }

  /** `focused` had the focus. */
  renewed(focused) {
    this.isThere([...this.list.querySelectorAll("li")].map(({ dataset }) => dataset.message));
    const { open } = this;
    if (open && !open.isConnected) {
      this.open = null;
      dropDraft(open.dataset.draft);
      this.late(open.value);
    } else if (focused && !focused.isConnected) this.focus(focused.closest("li").dataset.id, focused.dataset.act);
  }

  /** The message was sent while somebody edited it: their text is kept. */
  late(text) {
    this.page.composer.giveBack({ text, files: [], said: [] }, "The message was already sent. Your edit is here.");
  }

  row(id) {
    return this.list.querySelector(`[data-id="${id}"]`);
  }

  focus(id, act) {
    const row = this.row(id);
    (row?.querySelector(`[data-act="${act}"]`) ?? row?.querySelector("button") ?? this.page.composer.words).focus();
  }

  // Actions of the person

  async act(name, row) {
    if (name === "edit") return this.edit(row);
    const { id } = row.dataset;
    if (this.underWay.has(id)) return; // a redrawn row does not show this yet
    this.underWay.add(id);
    for (const button of row.querySelectorAll("button")) button.disabled = true;
    const place = [...this.list.querySelectorAll("li")].indexOf(row);
    try {
      await (name === "now" ? api("POST", `${this.path}/${id}/send`) : this.remove(id));
      dropDraft(`draft:queued:${id}`);
      await this.changed();
      this.after(place, name, row);
    } catch (problem) {
      this.page.complain(problem.message);
      await this.changed();
      for (const button of row.querySelectorAll("button")) button.disabled = false;
      this.focus(id, name);
    } finally {
      this.underWay.delete(id);
    }
  }

  /** A message that is already gone is fine. */
  async remove(id) {
    await api("DELETE", `${this.path}/${id}`).catch((problem) => {
      if (problem.status !== 404) throw problem;
    });
  }

  /** Focus the row that replaces a removed one, which may take a moment. */
  after(place, name, gone) {
    const rows = [...this.list.querySelectorAll("li")].filter(({ dataset }) => dataset.id !== gone.dataset.id);
    const row = rows[place] ?? rows.at(-1);
    (row?.querySelector(`[data-act="${name}"]`) ?? this.page.composer.words).focus();
    if (name !== "remove") return;
    toast("Queued message deleted.", { name: "Undo", run: () => this.putBack(gone) });
  }

  /** Put a message back in its place with everything; if that is too late, at least its words. */
  async putBack(gone) {
    try {
      await api("POST", `${this.path}/${gone.dataset.id}/restore`);
    } catch (problem) {
      if (problem.status) this.page.composer.giveBack({ text: wordsOf(gone), files: [], said: [] }, problem.message);
      else toast(problem.message, { name: "Undo", run: () => this.putBack(gone), stays: 60_000 });
    }
    await this.changed();
  }

  /** The row has a form until the edit is saved or canceled. */
  edit(row) {
    const field = h("textarea", { rows: 2, dir: "auto", "aria-label": "Queued message" });
    const draft = `draft:queued:${row.dataset.id}`;
    const before = wordsOf(row);
    field.dataset.draft = draft;
    field.value = draftOf(draft) ?? before;
    field.addEventListener("input", () => (field.value === before ? dropDraft(draft) : keepDraft(draft, field.value)));
    const shown = [...row.children];
    const close = () => {
      this.open = null;
      row.replaceChildren(...shown);
      this.focus(row.dataset.id, "edit");
    };
    const cancel = () => {
      dropDraft(draft);
      close();
    };
    const save = async (event) => {
      event?.preventDefault();
      if (await this.save(row, field.value)) cancel();
      await this.changed();
    };
    field.addEventListener("keydown", (event) => {
      if (event.isComposing || !["Enter", "Escape"].includes(event.key) || event.shiftKey) return;
      event.preventDefault();
      event.stopPropagation();
      if (event.key === "Enter") save();
      else close();
    });
    const foot = h("span", { class: "queue-acts" }, h("button", { class: "small primary" }, "Save"), h("button", { type: "button", class: "small quiet", onclick: cancel }, "Cancel"));
    row.replaceChildren(h("form", { class: "queue-edit", onsubmit: save }, field, foot));
    this.open = field;
    field.focus();
  }

  /** Whether the row shows that now. */
  async save(row, text) {
    try {
      await api("PATCH", `${this.path}/${row.dataset.id}`, { text });
      return true;
    } catch (problem) {
      if (problem.status !== 404) this.page.complain(problem.message);
      return false;
    }
  }
}

const wordsOf = (row) => row.querySelector("[dir]").textContent;

function words(text, files) {
  const named = files.map(({ name }) => h("span", { class: "queue-file" }, icon("file"), h("bdi", {}, name)));
  return h("span", { class: "queue-text" }, h("span", { dir: "auto" }, text), named);
}
