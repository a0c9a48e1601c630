// Sends what is written, with its files, and gives back what could not be sent. attachments.js handles files and is loaded with the
// first file.
import { uuid } from "../requests.js";
import { keepWith, keptWith } from "./drafts.js";

export class Submitting {
  constructor(composer) {
    Object.assign(this, { composer, attachments: null, isDue: false });
  }

  /** Is the module loaded that chosen files need? */
  get isThere() {
    return !this.loading || Boolean(this.attachments);
  }

  /** Send these words when the module is loaded; words written in the meantime are another message. */
  async submitLater(value) {
    const { composer } = this;
    const isThere = !this.loading || Boolean(await this.loading); // nothing is sent without its files
    const meanwhile = composer.words.value;
    if (this.isDue) return composer.write(joined(meanwhile, value)); // the message waits for its files, and later ones wait for it
    composer.words.value = value;
    const sent = isThere ? this.submit() : null;
    composer.write(joined(composer.words.value, meanwhile));
    return sent;
  }

  async submit() {
    const { composer } = this;
    if (this.isDue || !((this.attachments?.areThere ?? true) || (await this.isReady()))) return;
    const [id, text] = [uuid(), composer.words.value.trim()];
    const attached = this.attachments?.said() ?? [];
    if (!text && !attached.length) return composer.words.focus();
    const said = [["message", id], ...(text ? [["text", text]] : []), ...attached, ...composer.also];
    const message = { id, text, files: attached.map(([, file]) => file), said, isOther: composer.isOther };
    this.clear();
    return composer.send(message);
  }

  clear() {
    const { composer } = this;
    composer.write("");
    composer.also = [];
    localStorage.removeItem(`${composer.draft}:with`); // a file that is not restored by now belongs to no other message
    composer.form.dispatchEvent(new Event("cleared"));
    this.attachments?.clear();
    composer.complain("");
  }

  /** Wait for uploads; false if one was refused, or the person gave up. */
  async isReady() {
    this.due(true);
    const isReady = await this.attachments.ready();
    const isWanted = this.isDue;
    this.due(false);
    return isReady && isWanted;
  }

  due(yes) {
    this.isDue = yes;
    this.composer.form.classList.toggle("is-due", yes);
  }

  /** Pasted cells and paragraphs include a picture of themselves: treat them as text. */
  async attach(files, types = []) {
    if (types.includes("text/plain") && types.includes("text/html")) return;
    (await this.loaded())?.add(files);
  }

  /** Null if it cannot be loaded now. */
  loaded() {
    this.loading ??= import("./attachments.js").then(
      ({ Attachments }) => (this.attachments ??= new Attachments(this.composer)),
      () => {
        this.loading = null;
        this.composer.complain("You are offline. Choose the files again when you are online.");
        return null;
      },
    );
    return this.loading;
  }

  /** Put an unsent message before newer words. */
  async giveBack({ text, said }, sentence) {
    const { composer } = this;
    composer.write([text, composer.words.value].filter(Boolean).join("\n\n"));
    composer.words.focus();
    if (said.some(([name]) => name === "files" || name === "large")) (await this.loaded())?.giveBack(said);
    const tasks = said.filter(([name]) => name === "reference").map(([, task]) => [task, "An earlier task"]);
    if (tasks.length) await import("../session/actions.js").then(({ recallReferences }) => recallReferences(composer, tasks), () => {});
    composer.complain(sentence);
  }
}

/** What belonged to a restored draft: references are restored, files are not. */
export async function recallDraft(composer) {
  const { words, form } = composer;
  const { files, references } = keptWith(composer);
  const over = () => {
    const isEmpty = !words.value.trim() && form.querySelector(".chosen").hidden;
    if (isEmpty) keepWith(composer, { files: false });
  };
  over();
  for (const [target, name] of [[words, "input"], [form, "cleared"]]) target.addEventListener(name, over);
  if (files && words.value.trim()) composer.complain("The files of this draft were not kept. Choose them again.");
  if (!references) return;
  const actions = await import("../session/actions.js").catch(() => null);
  if (keptWith(composer).references) actions?.recallReferences(composer, references); // or the message was sent in the meantime
}

const joined = (...texts) => texts.filter(Boolean).join("\n\n");

/** `composer`: the one that the files belong to. */
export function acceptDrops(composer) {
  const dragged = (event, over) => {
    if (!event.dataTransfer?.types.includes("Files")) return false;
    event.preventDefault();
    composer.form.classList.toggle("dropping", over);
    return true;
  };
  document.addEventListener("dragover", (event) => dragged(event, true));
  document.addEventListener("dragleave", (event) => event.relatedTarget || composer.form.classList.remove("dropping"));
  document.addEventListener("drop", (event) => dragged(event, false) && composer.attach(event.dataTransfer.files));
}
