// Plans: starts, pauses and stops runs. When htmx updates a run's page, it stays as the reader left it. Questions work as in the
// inbox.
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

/** `lost`: the text for a lost connection, by a button without input. */
async function send(form, said, lost = LOST) {
  form.setAttribute("aria-busy", "true");
  try {
    const { address } = await post(form.action, said, lost);
    if (address) return location.assign(address);
    delete form.dataset.message; // the next one is another run
    if (form.contains(document.activeElement)) $("run-title").focus({ preventScroll: true }); // its button disappears
    htmx.trigger($("standing"), "refresh");
  } catch (problem) {
    const now = form.isConnected ? form : document.querySelector(`[data-plan-act][action="${form.getAttribute("action")}"]`);
    complain(now ?? form, problem.message, problem.field); // htmx may have replaced the run's page
  } finally {
    form.removeAttribute("aria-busy");
  }
}

// Scroll large pictures to a step: the one that asks, otherwise the first

for (const box of document.querySelectorAll(".plan-box")) {
  const step = (box.querySelector(".is-asking") ?? box.querySelector(".step")).getBoundingClientRect();
  const { left, top } = box.getBoundingClientRect();
  box.scrollTo(step.left - left - BESIDE, step.top - top - (box.clientHeight - step.height) / 2);
}

// The current state of a run

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
