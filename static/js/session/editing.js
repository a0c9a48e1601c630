// Editing one's own message: the new text goes to a fork, and this session does not change.
import { draftOf, dropDraft, keepDraft } from "../compose/drafts.js";
import { h } from "../dom.js";
import { api, uuid } from "../requests.js";
import { isMac } from "../shell/shortcuts.js";

let open = null; // the only editor

/** Opens the editor in the message's place; keeps what was begun in another one until that is canceled. */
export function edit(page, item) {
  if (open?.key === item.key && open.form.isConnected) return open.words.focus();
  if (open && open.words.value !== open.before && open.form.isConnected) {
    page.complain("You are already editing another message. Save or cancel that edit first.");
    return open.words.focus();
  }
  open?.close();
  open = new Editor(page, item);
}

/** Edit one's own newest message, if any: ArrowUp in an empty composer does this. */
export function editLast(page) {
  const item = page.state.items.findLast((one) => one.role === "user" && one.index);
  if (item) edit(page, item);
}

/** The id of an item's message in the client API. */
export async function idOf(page, { index }) {
  const { items } = await api("GET", `/sessions/${page.id}/messages?index=${index}`);
  if (!items.length) throw new Error("This message no longer exists. Reload the page.");
  return items[0].id;
}

class Editor {
  constructor(page, item) {
    Object.assign(this, { page, item, key: item.key, before: item.text, id: uuid() });
    this.draft = `draft:edit:${page.id}:${item.messageId}`;
    this.words = h("textarea", { rows: 2, dir: "auto", "aria-label": "Your message", class: "editor-words" });
    this.words.value = draftOf(this.draft) ?? item.text;
    this.error = h("p", { class: "error small", role: "alert", hidden: true });
    this.form = h(
      "form",
      { class: "editor" },
      this.words,
      h("p", { class: "small muted" }, item.files ? "The edit becomes a new branch, with the files. What was said stays." : "The edit becomes a new branch. What was said stays."),
      this.error,
      h(
        "div",
        { class: "editor-foot" },
        h("button", { type: "submit", class: "primary", title: isMac ? "⌘ Enter" : "Ctrl+Enter" }, "Save and run"),
        h("button", { type: "submit", value: "save", title: "Save the edit without asking the agent" }, "Save"),
        h("button", { type: "button", class: "quiet", onclick: () => this.cancel() }, "Cancel"),
      ),
    );
    this.form.addEventListener("submit", (event) => this.save(event));
    this.form.addEventListener("keydown", (event) => this.pressed(event));
    this.words.addEventListener("input", () => this.written());
    page.on("drawn", () => this.attach());
    this.attach();
    this.words.focus();
    const { length } = this.words.value;
    this.words.setSelectionRange(length, length);
    this.grow();
  }

  /** The message may be redrawn, or leave the page for a while: the editor's text stays. */
  attach() {
    const element = this.page.element(this.item);
    if (this.isClosed || !element || element.contains(this.form)) return;
    element.querySelector(".meta").after(this.form);
    element.classList.add("is-edited");
  }

  pressed(event) {
    if (event.isComposing) return;
    if (event.key === "Escape") this.leave();
    else if (event.key === "Enter" && (isMac ? event.metaKey : event.ctrlKey)) this.form.requestSubmit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  written() {
    this.grow();
    const { value } = this.words;
    if (value === this.before || !value.trim()) dropDraft(this.draft);
    else keepDraft(this.draft, value);
  }

  grow() {
    this.words.style.setProperty("height", "auto");
    this.words.style.setProperty("height", `${this.words.scrollHeight + 2}px`);
  }

  /** Repeated requests make one fork: the editor has one key for each button. */
  async save(event) {
    event.preventDefault();
    const text = this.words.value.trim();
    if (this.isSaving) return;
    if (!text) return this.complain("The message is empty. Write something, or cancel.");
    const run = event.submitter?.value !== "save";
    this.saving(true);
    try {
      const message = await idOf(this.page, this.item);
      const said = { text, keepFiles: true, running: "finish", run };
      const { session } = await api("PUT", `/sessions/${this.page.id}/messages/${message}`, said, { key: `${this.id}-${digest(text)}${run ? "" : "-saved"}` });
      dropDraft(this.draft);
      location.assign(`/sessions/${session.id}`);
    } catch (problem) {
      this.saving(false);
      this.complain(problem.message);
      this.words.focus();
    }
  }

  saving(yes) {
    this.isSaving = yes;
    this.form.classList.toggle("is-saving", yes);
    this.form.setAttribute("aria-busy", yes);
    if (yes) this.complain("");
  }

  complain(sentence) {
    this.error.textContent = sentence;
    this.error.hidden = !sentence;
  }

  cancel() {
    dropDraft(this.draft);
    this.leave();
  }

  /** The edited text comes back when the editor opens again. */
  leave() {
    this.close();
    this.page.element(this.item)?.querySelector("[data-act=edit]")?.focus();
  }

  close() {
    this.isClosed = true;
    this.form.remove();
    this.page.element(this.item)?.classList.remove("is-edited");
    if (open === this) open = null;
  }
}

/** A text changed after a failed try is another message, and needs another key. */
function digest(text) {
  let sum = 0;
  for (const letter of text) sum = (sum * 31 + letter.codePointAt(0)) | 0;
  return (sum >>> 0).toString(36);
}
