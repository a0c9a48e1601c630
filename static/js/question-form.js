// The form of an agent's question, on every page: reads it, shows its errors, and keeps a draft.
import { draftOf, dropDraft, keepDraft } from "./compose/drafts.js";
import { uuid } from "./requests.js";

/**
 * The input, ready to send: {id, form, files, text}. Null if something is missing; then the form shows that. `submitter`: the button,
 * which may choose a sample instead of a file.
 */
export function read(form, submitter = null) {
  clear(form);
  const sample = submitter?.name === "sample" ? submitter.value : "";
  const sampled = sample.slice(0, sample.indexOf(":"));
  const missing = [...form.querySelectorAll(":invalid:not(fieldset)")].find(({ name }) => !sample || name !== sampled);
  if (missing) {
    complain(form, missing.validationMessage, missing.name);
    return null;
  }
  const said = new FormData(form);
  const id = (form.dataset.message ??= uuid()); // the same id again, because the answer may have been lost
  form.addEventListener("input", () => delete form.dataset.message, { once: true }); // changed input is another answer
  said.append("message", id);
  const files = [...said.values()].filter((value) => value instanceof File && value.name);
  for (const [name, value] of [...said]) if (value instanceof File && !value.name) said.delete(name);
  if (!sample) return { id, form: said, files, text: textOf(said) };
  said.delete(sampled);
  said.append("sample", sample);
  return { id, form: said, files: [], text: [textOf(said), sample.slice(sampled.length + 1)].filter(Boolean).join("\n") };
}

/** Show an error: beside the field of this name, which gets the focus, or below the form. */
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

/** The input, shown until the log has it. */
function textOf(said) {
  const filled = [...said].filter(([name, value]) => /^(answer-|text$)/.test(name) && typeof value === "string");
  return filled.map(([, value]) => value).filter(Boolean).join("\n");
}

const SECRET = "[type=password], [data-secret], [autocomplete$=password], [autocomplete=one-time-code]";
const known = new WeakSet(); // forms that are watched

const keyOf = ({ dataset, elements }) => `draft:answer:${dataset.task}:${elements.asked?.value ?? ""}`;

/** Restore the draft, unless somebody has begun to fill in the form; then keep further input. */
function follow(form) {
  if (known.has(form)) return;
  known.add(form);
  const said = draftOf(keyOf(form));
  if (form.matches(":focus-within") && fieldsOf(form).some(isChanged)) keepAnswer(form);
  else if (said) fill(form, said);
  form.addEventListener("input", () => keepAnswer(form));
}

export function keepAnswers(place) {
  place.querySelectorAll("form.question").forEach(follow);
}

export function keepAnswer(form) {
  const fields = fieldsOf(form);
  const said = fields.filter((field) => (isChoice(field) ? field.checked : field.files?.length !== 0));
  if (fields.some(isChanged)) keepDraft(keyOf(form), said.map(({ name, value, files }) => [name, files ? null : value]));
  else forgetAnswer(form);
}

/** The answer was sent, or given up. */
export function forgetAnswer(form) {
  dropDraft(keyOf(form));
}

function fill(form, said) {
  for (const field of fieldsOf(form)) {
    const given = said.filter(([name]) => name === field.name).map(([, value]) => value);
    if (isChoice(field)) field.checked = given.includes(field.value);
    else if (!field.files) field.value = given[0] ?? field.value;
  }
  const error = form.querySelector(".question-error");
  error.hidden = !said.some(([, value]) => value === null);
  if (!error.hidden) error.textContent = "The files of this draft are gone; choose them again.";
}

const fieldsOf = (form) => [...form.elements].filter((field) => field.name && field.type !== "hidden" && !field.matches(SECRET));
const isChoice = ({ type }) => type === "radio" || type === "checkbox";

function isChanged(field) {
  if (isChoice(field)) return field.checked !== field.defaultChecked;
  if (field.options) return field.selectedIndex !== Math.max(0, [...field.options].findIndex((one) => one.defaultSelected));
  return field.files ? field.files.length > 0 : field.value !== field.defaultValue;
}
