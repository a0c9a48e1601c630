// The editor of a plan. Its picture, the form of a step and its text are one definition: the server makes each edit, and answers with
// the text and everything that is drawn of it. Undo and redo are texts that are kept here.
import { h, safe } from "../dom.js";
import { complain } from "../question-form.js";
import { post, request } from "../requests.js";
import { drawLines } from "./plan-edit/lines.js";
import { Texts } from "./plan-edit/texts.js";

const PAUSE = 400; // ms without typing, until the text is read
const BOXES = ".step, .step-list a"; // of the steps: in the picture, and in the list of a phone
const LOST = "Your plan is kept here. Try again when you are back online.";
const $ = (id) => document.getElementById(id);
const [editor, text, panel] = ["plan-editor", "definition", "step-panel"].map($);
const texts = new Texts(text.value);

let step = ""; // whose form is open
let waiting = 0; // edits that are not answered yet
let working = Promise.resolve();

/** Edits one after the other: each changes the text that the one before left. Gives whether it was made. */
function edit(act = "", { at = step, fields = new FormData() } = {}) {
  waiting += 1;
  working = working.then(() => once(act, at, fields)).finally(() => (waiting -= 1));
  return working;
}

async function once(act, at, fields) {
  const before = text.value;
  const form = $("plan-form");
  for (const [name, value] of Object.entries({ definition: before, slug: form.elements.slug.value, do: act, step: at })) fields.set(name, value);
  const asked = written();
  let answer;
  try {
    answer = await post(editor.dataset.change, fields, LOST);
  } catch (problem) {
    tell(problem.message, problem.field);
    return false;
  }
  if (text.value !== before) return once(act, at, fields); // somebody wrote meanwhile
  tell("");
  show(answer, at !== step || written() === asked);
  return true;
}

function tell(sentence, field = "") {
  const form = $("step-form");
  if (form && sentence) complain(form, sentence, field);
  else form?.querySelectorAll(".field-error, .question-error").forEach((error) => (error.hidden = true));
  $("edit-problem").textContent = form ? "" : sentence;
  $("edit-problem").hidden = Boolean(form) || !sentence;
}

/** What the form of the step says now. */
function written() {
  const form = $("step-form");
  return form ? new URLSearchParams(new FormData(form)).toString() : "";
}

/** `redraws`: also the form of the step, in which nobody wrote meanwhile. */
function show(answer, redraws) {
  if (answer.text !== text.value) text.value = answer.text;
  if (texts.keep(answer.text)) offerUndo();
  swap($("problems"), answer.problems);
  if (answer.picture) redraw(answer.picture);
  if (redraws) {
    const focused = focusIn(panel);
    const samples = step === answer.step ? [...panel.querySelectorAll("[name^=sample-]")].map(({ name, value }) => [name, value]) : [];
    const tried = step === answer.step ? $("trial-answer") : null;
    const open = [...panel.querySelectorAll("details")].map(({ id, open: isOpen }) => [id, isOpen && step === answer.step]);
    safe(panel, answer.panel);
    for (const [id, isOpen] of open) if (isOpen && $(id)) $(id).open = true;
    for (const [name, value] of samples) if (value && $(name)) $(name).value = value;
    if (tried) $("trial-answer")?.replaceWith(tried);
    focusAgain(focused);
  }
  step = answer.step;
  fit();
}

function swap(element, html) {
  const made = safe(h("div"), html).firstElementChild;
  element.replaceWith(made);
  return made;
}

function redraw(html) {
  const old = $("plan-picture");
  const focused = focusIn(old);
  const [left, top] = [old.querySelector(".plan-box")?.scrollLeft ?? 0, old.querySelector(".plan-box")?.scrollTop ?? 0];
  const isOpen = old.querySelector("details")?.open;
  const made = swap(old, html);
  made.querySelector(".plan-box")?.scrollTo(left, top);
  if (isOpen) made.querySelector("details").open = true;
  focusAgain(focused);
}

function focusIn(place) {
  const element = place.contains(document.activeElement) ? document.activeElement : null;
  return element && { id: element.id, name: element.name, value: element.value, at: element.selectionStart };
}

function focusAgain(was) {
  if (!was) return;
  const named = was.id ? $(was.id) : null;
  const found = named ?? [...($("step-form")?.elements ?? [])].find(({ name, value }) => name && name === was.name && value === was.value);
  (found ?? $("panel-title"))?.focus({ preventScroll: true });
  if (found && Number.isInteger(was.at) && found.value === was.value) found.setSelectionRange(was.at, was.at);
}

/** Fields that only some who do a step have, and the box of the open step. */
function fit() {
  const form = $("step-form");
  const doer = form?.elements["answer-agent"].value;
  for (const field of form?.querySelectorAll("[data-only-for]") ?? []) {
    const { onlyFor } = field.dataset;
    field.hidden = onlyFor === "agent" ? doer === "?person" : onlyFor !== doer;
  }
  for (const one of $("plan-picture").querySelectorAll(BOXES)) {
    if (keyOf(one) === step) one.setAttribute("aria-current", "true");
    else one.removeAttribute("aria-current");
  }
}

const keyOf = (place) => place.getAttribute("href").replace("#step-", ""); // links of SVG have no hash

async function open(key) {
  if (await edit("", { at: key })) $("panel-title")?.focus();
}

// The picture, or the list of the steps

document.addEventListener("click", (event) => {
  const place = event.target.closest("#plan-picture a[href^='#step-']");
  if (!place) return;
  event.preventDefault();
  open(keyOf(place));
});

drawLines((from, to) => {
  const fields = new FormData();
  fields.set("to", to);
  edit("connect", { at: from, fields });
});

// The form of a step

panel.addEventListener("change", ({ target }) => {
  if (target.dataset.insert) insert(target);
  else if (target.name?.startsWith("answer-")) change();
});

panel.addEventListener("submit", (event) => {
  event.preventDefault();
  change();
});

function change() {
  fit();
  return edit("change", { fields: new FormData($("step-form")) });
}

/** An input or a result of an earlier step, where the cursor was. */
function insert(picker) {
  const field = $(picker.dataset.insert);
  const isTemplate = picker.dataset.format === "jinja-template";
  const words = isTemplate ? `{{ ${picker.value} }}` : picker.value;
  const isLine = field.name === "answer-attach" && field.value.trim();
  if (isLine) field.value = `${field.value.trimEnd()}\n${words}`;
  else field.setRangeText(words, field.selectionStart, field.selectionEnd, "end");
  picker.value = "";
  field.focus();
  change();
}

panel.addEventListener("click", async ({ target }) => {
  const button = target.closest("button");
  if (button?.matches("[data-close]")) return close();
  if (button?.dataset.try) return tryStep(button);
  const act = button?.dataset.do;
  if (!act) return;
  const fields = new FormData();
  fields.set("key", $("step-key").value);
  const made = await edit(act === "add" ? $("add-where").value : act, { fields });
  if (made && (act === "add" || act === "delete" || act === "duplicate")) $("panel-title")?.focus();
});

/** Runs the step alone, as the form says it now, with the samples of the form. */
async function tryStep(button) {
  if (button.getAttribute("aria-busy")) return;
  await working;
  const fields = new FormData($("step-form"));
  fields.set("definition", text.value);
  fields.set("step", step);
  const tried = step;
  const isHere = () => step === tried && $("trial-answer");
  button.setAttribute("aria-busy", "true");
  $("trial-problem").hidden = true;
  $("trial-answer").replaceChildren(h("p", { class: "muted" }, "The agent is working…"));
  try {
    const { html } = await patientPost(button.dataset.try, fields);
    if (isHere()) safe($("trial-answer"), html);
  } catch (problem) {
    if (!isHere()) return;
    $("trial-answer").replaceChildren();
    $("trial-problem").textContent = problem.message;
    $("trial-problem").hidden = false;
  } finally {
    panel.querySelector("[data-try]")?.removeAttribute("aria-busy"); // the form may have been drawn again
  }
}

/** One request, however long it takes: the server has a limit. */
async function patientPost(address, body) {
  const answer = await request(address, { method: "POST", body });
  const said = await answer.json().catch(() => null);
  if (answer.ok && said) return said;
  throw new Error(said?.error ?? "The step could not be tried. Wait a moment, then try again.");
}

function close() {
  const key = step;
  step = "";
  panel.replaceChildren();
  fit();
  [...$("plan-picture").querySelectorAll(BOXES)].find((one) => keyOf(one) === key && one.checkVisibility())?.focus();
}

panel.addEventListener("keydown", (event) => {
  if (event.key === "Escape") close();
});

// The text

let typed = 0;

text.addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(() => edit(), PAUSE);
});

$("plan-form").addEventListener("submit", async (event) => {
  if (!waiting) return;
  event.preventDefault(); // the last edit is on its way
  await working;
  event.target.requestSubmit();
});

// Undo and redo

function offerUndo() {
  $("undo").disabled = !texts.canUndo;
  $("redo").disabled = !texts.canRedo;
}

function turnBack(isRedo) {
  const before = isRedo ? texts.redo() : texts.undo();
  if (before === null) return;
  clearTimeout(typed);
  text.value = before;
  offerUndo();
  edit();
}

$("undo").addEventListener("click", () => turnBack(false));
$("redo").addEventListener("click", () => turnBack(true));
document.addEventListener("keydown", (event) => {
  const letter = event.key.toLowerCase();
  if (!(event.ctrlKey || event.metaKey) || event.altKey || (letter !== "z" && letter !== "y")) return;
  const isOwn = event.target === text || !event.target.matches("textarea, input:not([type=checkbox], [type=radio])");
  if (!isOwn) return; // a field has its own
  event.preventDefault();
  if (event.target === text) texts.keep(text.value);
  turnBack(letter === "y" || event.shiftKey);
});

fit();
if (location.hash.startsWith("#step-")) {
  open(location.hash.replace("#step-", "")); // chosen before this script was here
  history.replaceState(null, "", location.pathname + location.search); // the page after saving would have it, too
}
