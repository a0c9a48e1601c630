// Completes the names of agents after an @ in the composer. A message that begins with @slug is for that agent.
import { agentsFor, slugOf } from "../shell/agents.js";
import { Completion } from "./completing.js";

const TYPED = /(^|\s)@([a-z0-9-]*)$/i; // before the cursor
const LEADING = /^\s*@([a-z0-9][a-z0-9-]*)(?=\s|$)/; // as in `apps/conversations/pages/session/addressing.py`

export class Mentions extends Completion {
  constructor(composer) {
    super(composer, "mentions", "Agents", TYPED);
  }

  load() {
    return agentsFor("");
  }

  namesOf(option) {
    return [slugOf(option), option.dataset.agent];
  }

  written() {
    this.address();
  }

  /** The data of the other agent that a message is for, or null. The Assistant and the router read names themselves. */
  addressee(text) {
    const slug = LEADING.exec(text)?.[1];
    const field = this.composer.form.querySelector(".composer-field").dataset;
    const named = "readsNames" in field ? null : this.known?.find((one) => slugOf(one) === slug)?.dataset;
    return named && slug !== field.slug ? named : null;
  }

  /** What the composer says about files is about the agent of the message. */
  address() {
    const mentioned = this.addressee(this.words.value);
    if (mentioned === this.composer.mentioned) return;
    this.composer.mentioned = mentioned;
    this.composer.form.dispatchEvent(new Event("addressed"));
  }

  /** The name goes to the beginning of the message, where it says whom that is for. */
  take(option) {
    const { words } = this;
    const before = this.before.replace(TYPED, "$1").replace(LEADING, "").trimStart();
    const name = `@${slugOf(option)} `;
    this.composer.write(name + before + words.value.slice(words.selectionStart).trimStart());
    words.setSelectionRange(name.length + before.length, name.length + before.length);
    words.focus();
    this.address();
  }
}
