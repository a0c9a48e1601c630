// A question's form, wherever it stands: what was filled in, and beside its fields what is wrong with it.
import { uuid } from "./ids.js";

/** What was filled in, ready to be sent: {id, form, files, text}. Null where something is missing, which is then said. */
export function read(form) {
  clear(form);
  const missing = form.querySelector(":invalid:not(fieldset)");
  if (missing) {
    complain(form, missing.validationMessage, missing.name);
    return null;
  }
  const said = new FormData(form);
  const id = (form.dataset.message ??= uuid()); // the same once more, where the answer to it was lost on its way
  form.addEventListener("input", () => delete form.dataset.message, { once: true }); // what is changed is another answer
  said.append("message", id);
  const files = [...said.values()].filter((value) => value instanceof File && value.name);
  for (const [name, value] of [...said]) if (value instanceof File && !value.name) said.delete(name);
  return { id, form: said, files, text: textOf(said) };
}

/** Say what is wrong: beside the field of this name, which then has the focus, or below the form. */
export function complain(form, sentence, name = "") {
  clear(form);
  const field = name ? form.querySelector(`[data-field="${CSS.escape(name)}"]`) : null;
  const place = field?.querySelector(".field-error") ?? form.querySelector(".question-error");
  place.textContent = sentence;
  place.hidden = !sentence;
  const input = field?.querySelector("input, textarea");
  if (!input) return;
  input.setAttribute("aria-invalid", "true");
  const described = input.getAttribute("aria-describedby") ?? "";
  if (!described.includes(place.id)) input.setAttribute("aria-describedby", `${described} ${place.id}`.trim());
  input.focus();
}

export function clear(form) {
  for (const error of form.querySelectorAll(".field-error, .question-error")) error.hidden = true;
  for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
}

/** What was filled in, as it is shown until the log says it. */
function textOf(said) {
  const filled = [...said].filter(([name, value]) => /^(answer-|text$)/.test(name) && typeof value === "string");
  return filled.map(([, value]) => value).filter(Boolean).join("\n");
}
