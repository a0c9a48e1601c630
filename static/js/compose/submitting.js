// Sending what is written, with its files; and giving back what could not be sent. Files are for attachments.js, which comes
// with the first of them.
import { uuid } from "../requests.js";
import { keepWith, keptWith } from "./drafts.js";

export class Submitting {
  constructor(composer) {
    Object.assign(this, { composer, attachments: null, isDue: false });
  }

  /** Is there what the files need that were chosen, if any were? */
  get isThere() {
    return !this.loading || Boolean(this.attachments);
  }

  /** Send these words as soon as that is there; what is written meanwhile is another message. */
  async submitLater(value) {
    const { composer } = this;
    const isThere = !this.loading || Boolean(await this.loading); // nothing goes without the files that were chosen
    const meanwhile = composer.words.value;
    if (this.isDue) return composer.write(joined(meanwhile, value)); // what it says waits for its files, with all that follows
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
    const message = { id, text, files: attached.map(([, file]) => file), said, isNow: composer.isNow };
    this.clear();
    return composer.send(message);
  }

  clear() {
    const { composer } = this;
    composer.write("");
    composer.also = [];
    localStorage.removeItem(`${composer.draft}:with`); // what is not there again by now goes with no other message
    composer.form.dispatchEvent(new Event("cleared"));
    this.attachments?.clear();
    composer.complain("");
  }

  /** Wait for the files that go to the server; false where one was refused, or nobody wants it any more. */
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

  /** Cells and paragraphs that are pasted bring a picture of themselves: then they are text. */
  async attach(files, types = []) {
    if (types.includes("text/plain") && types.includes("text/html")) return;
    (await this.loaded())?.add(files);
  }

  /** Null where it cannot be had just now. */
  loaded() {
    this.loading ??= import("./attachments.js").then(
      ({ Attachments }) => (this.attachments ??= new Attachments(this.composer)),
      () => {
        this.loading = null;
        this.composer.complain("The line is lost. Choose the files again when it is back.");
        return null;
      },
    );
    return this.loading;
  }

  /** What could not be sent, before whatever was begun meanwhile. */
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

/** What went along with the words of a draft that comes back: tasks that it refers to are there again, files are not. */
export async function recallDraft(composer) {
  const { words, form } = composer;
  const { files, references } = keptWith(composer);
  const over = () => {
    const isEmpty = !words.value.trim() && form.querySelector(".chosen").hidden;
    if (isEmpty) keepWith(composer, { files: false });
  };
  over();
  for (const [target, name] of [[words, "input"], [form, "cleared"]]) target.addEventListener(name, over);
  if (files && words.value.trim()) composer.complain("The files of this draft are gone; choose them again.");
  if (!references) return;
  const actions = await import("../session/actions.js").catch(() => null);
  if (keptWith(composer).references) actions?.recallReferences(composer, references); // or the message was sent meanwhile
}

const joined = (...texts) => texts.filter(Boolean).join("\n\n");

/** `composer`: whom the files are for. */
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
