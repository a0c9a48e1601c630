// A task's page: announces updates by htmx once; its buttons stop a task and send it again.
import "../clipboard.js"; // for its buttons
import { api, post, uuid } from "../requests.js";
import { announce, toast } from "../toast.js";
import { keepPlaces } from "./keep-places.js";

const MOST_ROWS = 500; // events that load automatically; more on request
const LOST = "It may not have been sent. Press Run again when you are back online. It is never sent twice.";
const $ = (id) => document.getElementById(id);

keepPlaces("standing", () => {
  tell();
  lookForNewer();
});

let told = $("standing").dataset.state;

function tell() {
  const { state } = $("standing").dataset;
  if (state === told) return;
  told = state;
  $("task-news").textContent = document.querySelector(".task-state .word").textContent;
}

/** Events after the newest row. While the table is filtered or folded, they wait for the button. */
function lookForNewer() {
  const more = $("more");
  const last = document.querySelector("#events tr[data-index]:nth-last-child(2)")?.dataset.index ?? 0;
  const isNewer = Number($("standing").dataset.newest) > Number(last);
  const isFiltered = $("event-type").value || $("event-text").value;
  if (more && "waits" in more.dataset && isNewer && !isFiltered && $("events").rows.length < MOST_ROWS) {
    htmx.trigger(more, "newer");
  }
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-stop], [data-again]");
  if (button) act(button);
});

async function act(button) {
  const { stop, again } = button.dataset;
  button.disabled = true;
  try {
    if (stop) await stopped(stop);
    else location.assign(await sentAgain(again, button));
  } catch (problem) {
    toast(problem.message);
  } finally {
    button.disabled = false;
  }
}

async function stopped(task) {
  await api("POST", `/tasks/${task}/cancel`);
  $("task-title").focus({ preventScroll: true }); // the button disappears
  htmx.trigger($("standing"), "refresh");
  announce("Stopped.");
}

/** A retry has the same id, so it is not sent twice. */
async function sentAgain(address, { dataset }) {
  dataset.message ??= uuid();
  const version = $("again-version")?.value ?? "";
  const { session } = await post(address, { message: dataset.message, task: dataset.task, version }, LOST);
  delete dataset.message;
  return session;
}
