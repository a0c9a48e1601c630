// Completes the names of agents after an @ in the composer. A message that begins with @slug is for that agent.
import { h } from "../dom.js";
import { agentsFor, slugOf } from "../shell/agents.js";

const TYPED = /(^|\s)@([a-z0-9-]*)$/i; // before the cursor
const LEADING = /^\s*@([a-z0-9][a-z0-9-]*)(?=\s|$)/; // as in `apps/conversations/pages/session/addressing.py`
const MOST = 8;

export class Mentions {
  constructor(composer) {
    Object.assign(this, { composer, words: composer.words, agents: null });
    this.list = h("div", { class: "mentions", id: "mentions", role: "listbox", "aria-label": "Agents", hidden: true });
    composer.form.append(this.list); // not into the field, whose elements follow the server's
    this.words.addEventListener("input", () => this.look());
    this.words.addEventListener("blur", () => this.close());
    this.words.addEventListener("keydown", (event) => this.pressed(event), { capture: true }); // before the composer
    composer.form.addEventListener("cleared", () => this.look());
    this.list.addEventListener("pointerdown", (event) => event.preventDefault()); // the focus stays in the words
    this.list.addEventListener("click", ({ target }) => this.take(target.closest("[role=option]")));
    this.look();
  }

  async look() {
    this.agents ??= await agentsFor("").catch(() => null);
    if (!this.agents) return;
    this.address();
    const typed = TYPED.exec(this.words.value.slice(0, this.words.selectionStart))?.[2].toLowerCase();
    const found = typed === undefined ? [] : this.fitting(typed).slice(0, MOST);
    if (!found.length) return this.close();
    this.list.replaceChildren(...found);
    this.list.hidden = false;
    for (const [name, value] of Object.entries({ "aria-haspopup": "listbox", "aria-controls": "mentions", "aria-autocomplete": "list" })) this.words.setAttribute(name, value);
    this.choose(0);
  }

  /** Those whose slug or name begins so, then those that have it elsewhere. */
  fitting(typed) {
    const place = (one) => Math.min(...[slugOf(one), one.dataset.agent.toLowerCase()].map((name) => name.indexOf(typed)).filter((at) => at >= 0));
    return this.agents.filter((one) => place(one) < Infinity).sort((one, other) => Boolean(place(one)) - Boolean(place(other)));
  }

  /** The data of the other agent that a message is for, or null. The Assistant and the router read names themselves. */
  addressee(text) {
    const slug = LEADING.exec(text)?.[1];
    const field = this.composer.form.querySelector(".composer-field").dataset;
    const named = "readsNames" in field ? null : this.agents?.find((one) => slugOf(one) === slug)?.dataset;
    return named && slug !== field.slug ? named : null;
  }

  /** What the composer says about files is about the agent of the message. */
  address() {
    const mentioned = this.addressee(this.words.value);
    if (mentioned === this.composer.mentioned) return;
    this.composer.mentioned = mentioned;
    this.composer.form.dispatchEvent(new Event("addressed"));
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
    for (const name of ["aria-haspopup", "aria-controls", "aria-autocomplete", "aria-activedescendant"]) this.words.removeAttribute(name);
  }

  pressed(event) {
    if (this.list.hidden || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const { options } = this;
    const now = options.findIndex((one) => one.getAttribute("aria-selected") === "true");
    const next = { ArrowDown: now + 1, ArrowUp: now - 1 }[event.key];
    if (next !== undefined) this.choose((next + options.length) % options.length);
    else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey) this.take(options[now]);
    else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  /** The name goes to the beginning of the message, where it says whom that is for. */
  take(option) {
    if (!option) return;
    const { words } = this;
    const before = words.value.slice(0, words.selectionStart).replace(TYPED, "$1").replace(LEADING, "").trimStart();
    const name = `@${slugOf(option)} `;
    this.close();
    this.composer.write(name + before + words.value.slice(words.selectionStart).trimStart());
    words.setSelectionRange(name.length + before.length, name.length + before.length);
    words.focus();
    this.address();
  }
}
