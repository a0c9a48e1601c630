// Answers questions in lists: in the inbox those of all sessions, on a run's page those of the run. The server draws them; answered
// ones are removed.
import { complainAbout, decide, watchCards } from "../approvals.js";
import { keep, mayWait, unsent } from "../compose/outbox.js";
import { setChildren } from "../place.js";
import { localizeTime } from "../format.js";
import { forgetAnswer, keepAnswers, read } from "../question-form.js";
import { api, post, Unreachable } from "../requests.js";
import { toast } from "../toast.js";

const SOON = 150; // ms to collect further events
const PAUSE = 15_000; // ms
const inbox = document.getElementById("inbox");
const list = inbox.querySelector("ol");
let due = 0;

keepAnswers(list);
answered().then((keys) => [...list.children].filter(({ dataset }) => keys.has(dataset.key)).forEach(leave));

for (const news of ["sessions-heard", "questions-changed"]) {
  document.addEventListener(news, () => {
    due ||= setTimeout(renew, SOON);
  });
}
document.addEventListener("visibilitychange", () => document.hidden || renew());
setInterval(() => document.hidden || renew(), PAUSE); // questions of child tasks do not always send events here

/** A question that is still open keeps its element, with its input and focus. */
async function renew() {
  due = 0;
  const answer = await fetch(inbox.dataset.items).catch(() => null);
  if (!answer?.ok || answer.redirected) return; // offline, or signed out: the shell shows that
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("#inbox ol");
  const known = new Map([...list.children].map((item) => [item.dataset.key, item]));
  const keys = await answered();
  const wanted = [...fresh.children].filter(({ dataset }) => !keys.has(dataset.key)).map((item) => known.get(item.dataset.key) ?? fitted(item));
  for (const item of [...list.children]) if (!wanted.includes(item)) leave(item);
  setChildren(list, wanted);
  nothing();
}

/** The questions whose answers are being sent, including those of an earlier visit. */
async function answered() {
  const kept = mayWait() ? await unsent() : [];
  return new Set(kept.filter(({ refused }) => !refused).map(({ question }) => question));
}

function fitted(item) {
  for (const time of item.querySelectorAll("time[datetime]")) localizeTime(time);
  keepAnswers(item);
  return item;
}

/** Remove a question; its focus goes to the next one. */
function leave(item) {
  const hadFocus = item.contains(document.activeElement);
  const next = item.nextElementSibling ?? item.previousElementSibling;
  item.remove();
  nothing();
  if (!hadFocus) return;
  const place = next?.querySelector(":is(input:not([type=hidden]), textarea):not(details *), .question a, .who a");
  (place ?? document.getElementById("inbox-title")).focus();
}

function nothing() {
  inbox.querySelector("[data-nothing]")?.toggleAttribute("hidden", list.children.length > 0);
}

watchCards(list, (form, button) => act(form, () => decide(form, button).then(() => (button.value === "refuse" ? "Refused." : "Approved."))));

list.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  if (form.matches(".approval")) return;
  const said = read(form, event.submitter);
  if (!said) return;
  await act(form, () => sent(form, said));
});

/** If the server cannot be reached, the answer waits in this browser (`resend.js` sends it). */
async function sent(form, { id, form: said, text }) {
  try {
    await post(form.action, said);
    return "Answer sent.";
  } catch (problem) {
    if (!(problem instanceof Unreachable)) throw problem;
    const [, session] = new URL(form.action).pathname.match(/^\/sessions\/([^/]+)/);
    const question = form.closest("li").dataset.key;
    await keep({ id, session, question, address: form.action, said: [...said], text, files: [], at: Date.now() });
    return "Your answer will be sent when you are online.";
  }
}

// Declining ends the task for good, so it needs a confirmation

list.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-decline]");
  if (!button) return;
  if (!button.classList.toggle("is-sure")) {
    const form = button.form;
    act(form, () => api("POST", `/tasks/${form.dataset.task}/cancel`).then(() => "Declined. The task was stopped."));
  }
  button.textContent = button.classList.contains("is-sure") ? "Decline and stop the task?" : "Decline";
});
list.addEventListener("focusout", ({ target }) => {
  if (!target.matches("[data-decline].is-sure")) return;
  target.classList.remove("is-sure");
  target.textContent = "Decline";
});

/** `run` gets the notice's text. */
async function act(form, run) {
  const item = form.closest("li");
  const { href } = item.querySelector(".who a");
  const focused = form.contains(document.activeElement) ? document.activeElement : null;
  form.setAttribute("aria-busy", "true");
  for (const button of form.querySelectorAll("button")) button.disabled = true;
  try {
    const sentence = await run();
    forgetAnswer(form);
    item.querySelector(".who a").focus(); // the next question takes over the focus
    leave(item);
    document.dispatchEvent(new CustomEvent("sessions-changed", { detail: { isMoved: false } }));
    toast(sentence, { name: "Open", run: () => location.assign(href) });
  } catch (problem) {
    for (const button of form.querySelectorAll("button")) button.disabled = false;
    focused?.focus();
    complainAbout(form, problem);
    if (problem.status === 404 || problem.status === 409) renew();
  } finally {
    form.removeAttribute("aria-busy");
  }
}
