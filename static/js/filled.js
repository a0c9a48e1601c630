// What is filled into a question's form is kept until it is sent, or declined: of files, only that there were some; of what is
// secret, nothing.
import { draftOf, dropDraft, keepDraft } from "./drafts.js";

const SECRET = "[type=password], [data-secret], [autocomplete$=password], [autocomplete=one-time-code]";
const known = new WeakSet(); // forms that are followed

const keyOf = ({ dataset, elements }) => `draft:answer:${dataset.task}:${elements.asked?.value ?? ""}`;

/** Fill in what was kept, unless somebody began to already; and keep what is filled in from now on. */
function follow(form) {
  if (known.has(form)) return;
  known.add(form);
  const said = draftOf(keyOf(form));
  if (form.matches(":focus-within") && fieldsOf(form).some(isChanged)) keep(form);
  else if (said) fill(form, said);
  form.addEventListener("input", () => keep(form));
}

export function followAll(place) {
  place.querySelectorAll("form.question").forEach(follow);
}

export function keep(form) {
  const fields = fieldsOf(form);
  const said = fields.filter((field) => (isChoice(field) ? field.checked : field.files?.length !== 0));
  if (fields.some(isChanged)) keepDraft(keyOf(form), said.map(({ name, value, files }) => [name, files ? null : value]));
  else forget(form);
}

/** It is sent, or given up. */
export function forget(form) {
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
