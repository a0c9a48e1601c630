// An agent's questions: forms that the server made, answered here; the focus goes to each of them once.
import { uuid } from "../dom.js";

export class Questions {
  /** `deliver` sends a message (see main.js). */
  constructor(list, deliver) {
    Object.assign(this, { list, deliver, focused: new Set() });
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
    const missing = form.querySelector(":invalid:not(fieldset)");
    if (missing) return this.complain(form, `${nameOf(missing)}: ${missing.validationMessage}`, missing);
    const said = new FormData(form);
    const id = uuid();
    said.append("message", id);
    const files = [...said.values()].filter((value) => value instanceof File && value.name);
    for (const [name, value] of [...said]) if (value instanceof File && !value.name) said.delete(name);
    this.complain(form, "");
    form.inert = true; // until the log has the answer, or it is given back
    const giveBack = (sentence) => {
      form.inert = false;
      this.complain(form, sentence);
    };
    return this.deliver({ id, form: said, files, text: textOf(form), giveBack, unreached: () => giveBack("") });
  }

  complain(form, sentence, field = null) {
    const error = form.querySelector(".question-error");
    error.textContent = sentence;
    error.hidden = !sentence;
    field?.focus();
  }
}

function nameOf(field) {
  const group = field.closest("fieldset")?.querySelector("legend");
  return (group ?? field.labels[0]).textContent.trim();
}

/** What was filled in, as it is shown until the log says it. */
function textOf(form) {
  const filled = [...new FormData(form)].filter(([name, value]) => name.startsWith("answer-") && typeof value === "string");
  return filled.map(([, value]) => value).filter(Boolean).join("\n");
}
