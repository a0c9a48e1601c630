// An agent's questions in its session: forms that the server made, answered there; the focus goes to each of them once.
import { clear, complain, read } from "../answering.js";

export function start(page) {
  const questions = new Questions(document.getElementById("items"), page);
  questions.focusNewest();
  page.on("drawn", () => questions.focusNewest());
}

class Questions {
  constructor(list, page) {
    Object.assign(this, { list, page, focused: new Set() });
    list.addEventListener("submit", (event) => {
      if (!event.target.matches("form.question")) return;
      event.preventDefault();
      this.answer(event.target);
    });
  }

  /** Go to a question that is new, unless the person is in the middle of writing. */
  focusNewest() {
    const form = [...this.list.querySelectorAll(".question")].at(-1);
    if (!form || this.focused.has(form.closest("li").dataset.message)) return;
    this.focused.add(form.closest("li").dataset.message);
    const writing = document.activeElement?.matches("textarea, input") && document.activeElement.value;
    if (!writing) form.querySelector("input:checked, input:not([type=hidden]), textarea, a")?.focus();
  }

  answer(form) {
    const said = read(form);
    if (!said) return;
    form.inert = true; // until the log has the answer, or it is given back
    const { scroller } = this.page.end;
    scroller.focus({ preventScroll: true }); // what is inert would lose the focus
    const giveBack = (sentence, field) => {
      form.inert = false;
      if (document.activeElement === scroller) form.querySelector("button").focus({ preventScroll: true });
      if (sentence) complain(form, sentence, field);
      else clear(form);
    };
    this.page.deliver({ ...said, giveBack, unreached: () => giveBack("") });
  }
}
