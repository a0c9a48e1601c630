// Completes the word before a composer's cursor: a list from which one chooses by the arrows and Enter, or by a touch.
import { h } from "../dom.js";

const MOST = 5; // they fit without scrolling
const DESCRIBES = ["aria-haspopup", "aria-controls", "aria-autocomplete", "aria-activedescendant"];

/** Subclasses have `typed`, whose last group is the word, `load()`, which gives options or null, `namesOf(option)`, and `take(option)`. */
export class Completion {
  constructor(composer, id, label, typed) {
    Object.assign(this, { composer, words: composer.words, typed, known: null });
    this.list = h("div", { class: "completions", id, role: "listbox", "aria-label": label, hidden: true });
    composer.form.append(this.list); // not into the field, whose elements follow the server's
    this.words.addEventListener("input", () => this.look());
    this.words.addEventListener("blur", () => this.close());
    this.words.addEventListener("keydown", (event) => this.pressed(event), { capture: true }); // before the composer
    composer.form.addEventListener("cleared", () => this.look());
    this.list.addEventListener("pointerdown", (event) => event.preventDefault()); // the focus stays in the words
    this.list.addEventListener("click", ({ target }) => this.chosen(target.closest("[role=option]")));
    this.look();
  }

  get before() {
    return this.words.value.slice(0, this.words.selectionStart);
  }

  async look() {
    this.known ??= await this.load().catch(() => null);
    if (!this.known) return;
    this.written();
    const typed = this.typed.exec(this.before)?.at(-1).toLowerCase();
    const found = typed === undefined ? [] : this.fitting(typed).slice(0, MOST);
    if (!found.length) return this.close();
    this.list.replaceChildren(...found);
    this.list.hidden = false;
    for (const [name, value] of Object.entries({ "aria-haspopup": "listbox", "aria-controls": this.list.id, "aria-autocomplete": "list" })) this.words.setAttribute(name, value);
    this.choose(0);
  }

  /** The words changed, or are looked at for the first time. */
  written() {}

  /** Those of which a name begins so, then those that have it elsewhere. */
  fitting(typed) {
    const place = (one) => Math.min(...this.namesOf(one).map((name) => name.toLowerCase().indexOf(typed)).filter((at) => at >= 0));
    return this.known.filter((one) => place(one) < Infinity).sort((one, other) => Boolean(place(one)) - Boolean(place(other)));
  }

  get options() {
    return [...this.list.children];
  }

  choose(at) {
    this.options.forEach((one, place) => one.setAttribute("aria-selected", String(place === at)));
    this.words.setAttribute("aria-activedescendant", this.options[at].id);
    this.options[at].scrollIntoView({ block: "nearest" });
  }

  close() {
    if (this.list.hidden) return;
    this.list.hidden = true;
    for (const name of DESCRIBES) this.words.removeAttribute(name);
  }

  pressed(event) {
    if (this.list.hidden || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const { options } = this;
    const now = options.findIndex((one) => one.getAttribute("aria-selected") === "true");
    const next = { ArrowDown: now + 1, ArrowUp: now - 1 }[event.key];
    if (next !== undefined) this.choose((next + options.length) % options.length);
    else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey) this.chosen(options[now]);
    else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  chosen(option) {
    if (!option) return;
    this.close();
    this.take(option);
  }
}
