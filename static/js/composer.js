// Where people write: words and files, checked before they are sent; Enter sends, Shift and Enter begin a new line.
import { bytes, h, icon, uuid } from "./dom.js";

export class Composer {
  /** `send(message)` is given {id, text, files}; it may return a promise of whether that was taken. */
  constructor(form, send) {
    Object.assign(this, { form, send, files: [] });
    this.words = form.querySelector("textarea");
    this.error = form.querySelector(".composer-error");
    this.list = form.querySelector(".chosen");
    this.mostBytes = Number(form.dataset.mostBytes);
    this.listen();
    this.grow();
    form.querySelector(".send").disabled = false; // until now the browser would have sent the form by itself
  }

  listen() {
    const { form, words } = this;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    words.addEventListener("input", () => this.grow());
    words.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      form.requestSubmit();
    });
    words.addEventListener("paste", ({ clipboardData }) => this.add(clipboardData.files));
    const chooser = form.querySelector("#files");
    const take = () => {
      this.add(chooser.files);
      chooser.value = "";
    };
    chooser.addEventListener("change", take);
    take(); // what was chosen before this script was there
    document.addEventListener("dragover", (event) => this.dragged(event, true));
    document.addEventListener("dragleave", (event) => event.relatedTarget || form.classList.remove("dropping"));
    document.addEventListener("drop", (event) => {
      this.dragged(event, false);
      this.add(event.dataTransfer.files);
    });
  }

  dragged(event, over) {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    this.form.classList.toggle("dropping", over);
  }

  add(files) {
    if (!files.length || this.words.disabled) return;
    this.complain(this.problemWith([...this.files, ...files]));
    if (!this.error.hidden) return;
    this.files.push(...files);
    this.drawFiles();
    this.words.focus();
  }

  problemWith(files) {
    const empty = files.find((file) => file.size === 0);
    if (empty) return `“${empty.name}” is empty. Choose a file that has something in it.`;
    const size = files.reduce((sum, file) => sum + file.size, 0);
    if (size > this.mostBytes * 0.99) {
      return `That is ${bytes(size)}. Everything sent at once may have ${bytes(Math.floor(this.mostBytes / 1e6) * 1e6)}.`;
    }
    return "";
  }

  complain(sentence) {
    this.error.textContent = sentence;
    this.error.hidden = !sentence;
  }

  drawFiles() {
    this.list.hidden = !this.files.length;
    this.list.replaceChildren(...this.files.map((file) => this.chip(file)));
  }

  chip(file) {
    const remove = () => {
      this.files = this.files.filter((one) => one !== file);
      this.drawFiles();
      this.words.focus();
    };
    return h(
      "li",
      { class: "chip" },
      icon("file"),
      h("span", { class: "name" }, file.name),
      h("span", { class: "size" }, bytes(file.size)),
      h("button", { type: "button", class: "quiet round", "aria-label": `Remove ${file.name}`, onclick: remove }, icon("close")),
    );
  }

  /** Browsers that size a field by its content need no help. */
  grow() {
    if (CSS.supports("field-sizing", "content")) return;
    this.words.style.height = "auto";
    this.words.style.height = `${this.words.scrollHeight}px`;
  }

  submit() {
    const message = { id: uuid(), text: this.words.value.trim(), files: this.files };
    if (!message.text && !message.files.length) return this.words.focus();
    this.clear();
    return this.send(message);
  }

  /** Take nothing for now. What was begun stays. */
  shut(yes) {
    if (this.words.disabled === yes) return;
    for (const element of this.form.querySelectorAll("textarea, #files, .send")) element.disabled = yes;
  }

  clear() {
    this.words.value = "";
    this.files = [];
    this.complain("");
    this.drawFiles();
    this.grow();
  }

  /** Give back what could not be sent, unless something else has been begun meanwhile. */
  giveBack({ text, files }, sentence) {
    if (!this.words.value) this.words.value = text;
    this.files = [...files, ...this.files];
    this.drawFiles();
    this.grow();
    this.complain(sentence);
    this.words.focus();
  }
}
