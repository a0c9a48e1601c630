// The composer: Enter sends, except on a touch keyboard. A draft is kept until it is sent. `submitting.js` does the rest.

export const LOST = "You are offline. Try again when you are online; your message is kept here.";

export class Composer {
  /**
   * `send(message)` gets {id, text, files, said, isOther}: `said` are a form's fields, as [name, value]; `isOther`: not as Enter
   * sends it while an agent works, but the other way (now, or queued). Others add fields to the next message by `also`; ArrowUp in an empty composer calls `editLast`.
   */
  constructor(form, send) {
    Object.assign(this, { form, send, also: [], editLast: null, sender: null, coming: null, mentioned: null });
    this.words = form.querySelector("textarea");
    this.error = form.querySelector(".composer-error");
    this.draft = `draft:${form.dataset.draft ?? new URL(form.action).pathname}`; // home has one for all agents
    this.words.value ||= localStorage[this.draft] ?? "";
    if (localStorage[`${this.draft}:with`]) import("./submitting.js").then(({ recallDraft }) => recallDraft(this), () => {});
    this.listen();
    this.grow();
    form.querySelector(".send").disabled = this.words.disabled; // otherwise the browser sends the form
  }

  listen() {
    const { form, words } = this;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.isOther = Boolean(event.submitter?.matches(".send-other"));
      if (this.isOther) words.focus();
      this.submit();
    });
    words.addEventListener("input", () => this.written());
    words.addEventListener("input", () => import("./submitting.js").catch(() => {}), { once: true });
    words.addEventListener("input", () => words.value.includes("@") && this.completeMentions());
    words.addEventListener("input", () => /^\//m.test(words.value) && this.completePrompts());
    words.addEventListener("keydown", (event) => this.pressed(event));
    words.addEventListener("paste", ({ clipboardData: { files, types } }) => this.attach(files, types));
    for (const tool of form.querySelectorAll("[data-module]")) {
      const load = (event) => import(tool.dataset.module).then(({ start }) => start(tool, this, event), () => this.complain(LOST));
      tool.addEventListener("click", load, { once: true });
    }
    const chooser = form.querySelector("#files");
    const take = () => {
      this.attach(chooser.files);
      chooser.value = "";
    };
    chooser.addEventListener("change", take);
    take(); // files chosen before this script was loaded
    document.addEventListener("dragenter", () => import("./submitting.js").then(({ acceptDrops }) => acceptDrops(this)), { once: true });
  }

  /** Loaded with the first @. `mentioned` then describes the agent whose name the message begins with. */
  completeMentions() {
    this.mentions ??= import("./mentions.js").then(
      ({ Mentions }) => new Mentions(this),
      () => (this.mentions = null),
    );
  }

  /** Loaded with the first / at the beginning of a line, if this installation has prompts. */
  completePrompts() {
    if (!this.form.querySelector("[data-prompts]")) return;
    this.prompts ??= import("./prompts.js").then(
      ({ Prompts }) => new Prompts(this),
      () => (this.prompts = null),
    );
  }

  pressed(event) {
    if (event.isComposing || event.shiftKey) return;
    const isOther = event.ctrlKey || event.metaKey;
    if (event.key === "Enter" && (isOther || !matchMedia("(pointer: coarse)").matches)) this.form.requestSubmit(isOther ? this.form.querySelector(".send-other") : null);
    else if (event.key === "ArrowUp" && !this.words.value && this.editLast) this.editLast();
    else if (event.key === "Escape") this.leave();
    else return;
    event.preventDefault();
  }

  /** Stop waiting for files; or else move the focus to the conversation. */
  leave() {
    if (this.sender?.isDue) this.sender.due(false);
    else document.querySelector("#transcript, #main").focus({ preventScroll: true });
  }

  async attach(files, types = []) {
    const chosen = [...files];
    if (chosen.length && !this.words.disabled) await (await this.submitting())?.attach(chosen, types);
  }

  /** Words written while it waits for its script are another message. */
  async submit() {
    const { words } = this;
    if (this.sender?.isThere) return this.sender.submit();
    const { value } = words;
    words.value = "";
    const sender = await this.submitting();
    return sender ? sender.submitLater(value) : this.write(value + words.value);
  }

  async giveBack(...unsent) {
    await (await this.submitting())?.giveBack(...unsent);
  }

  /** Loaded once, so that order is kept; null if it cannot be loaded now. */
  submitting() {
    this.coming ??= import("./submitting.js").then(
      ({ Submitting }) => (this.sender = new Submitting(this)),
      () => {
        this.coming = null;
        this.complain(LOST);
        return null;
      },
    );
    return this.coming;
  }

  /** What the page says with each message, such as the project that its sessions begin in. */
  fixed() {
    return [...this.form.querySelectorAll("input[data-said]:not([type=checkbox]:not(:checked))")].map(({ name, value }) => [name, value]);
  }

  complain(sentence) {
    this.error.textContent = sentence;
    this.error.hidden = !sentence;
  }

  written() {
    this.grow();
    if (this.words.value.trim()) localStorage.setItem(this.draft, this.words.value);
    else localStorage.removeItem(this.draft);
  }

  grow() {
    if (CSS.supports("field-sizing", "content")) return;
    this.words.style.height = "auto";
    this.words.style.height = `${this.words.scrollHeight}px`;
  }

  write(text) {
    this.words.value = text;
    this.written();
  }
}
