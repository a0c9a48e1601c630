// Plans: what starts, pauses and stops goes to the server; a run's page that htmx brings anew stays as it was left. What a
// run asks is there as in the inbox.
import { complain, read } from "../question-form.js";
import { post } from "../requests.js";
import { keepPlaces } from "./keep-places.js";

const BESIDE = 24; // pixels before that step
const LOST = "What you wrote is kept here.";
const $ = (id) => document.getElementById(id);

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("[data-plan-act]")) return;
  event.preventDefault();
  if (form.getAttribute("aria-busy")) return;
  const said = read(form);
  if (!said) return;
  if (event.submitter?.name) said.form.append(event.submitter.name, event.submitter.value);
  await send(form, said.form, event.submitter?.dataset.lost);
});

/** `lost`: what is said where the line is lost, by a button that has nothing to be written. */
async function send(form, said, lost = LOST) {
  form.setAttribute("aria-busy", "true");
  try {
    const { address } = await post(form.action, said, lost);
    if (address) return location.assign(address);
    delete form.dataset.message; // the next one is another
    if (form.contains(document.activeElement)) $("run-title").focus({ preventScroll: true }); // its button goes
    htmx.trigger($("standing"), "refresh");
  } catch (problem) {
    const now = form.isConnected ? form : document.querySelector(`[data-plan-act][action="${form.getAttribute("action")}"]`);
    complain(now ?? form, problem.message, problem.field); // the run's page may have been brought anew meanwhile
  } finally {
    form.removeAttribute("aria-busy");
  }
}

// Pictures that are larger than their boxes begin where a step is: the one that asks, otherwise the first

for (const box of document.querySelectorAll(".plan-box")) {
  const step = (box.querySelector(".is-asking") ?? box.querySelector(".step")).getBoundingClientRect();
  const { left, top } = box.getBoundingClientRect();
  box.scrollTo(step.left - left - BESIDE, step.top - top - (box.clientHeight - step.height) / 2);
}

// A run as it is by now

keepPlaces("standing", () => {
  document.dispatchEvent(new CustomEvent("questions-changed"));
  tell();
});

let told = $("standing")?.dataset.state;

function tell() {
  const { state } = $("standing").dataset;
  if (state === told) return;
  told = state;
  $("run-news").textContent = document.querySelector(".task-state .word").textContent;
}
