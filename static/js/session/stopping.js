// Stops running work, at once or after its step, and says when that is done.
import { h, sign } from "../dom.js";
import { persist } from "../requests.js";
import { busyTask, waitingTask } from "./sending.js";

const LOST = "The task is still running. Press Stop again when you are back online.";
const head = document.getElementById("head-state");
const button = document.querySelector("#composer .stop");
const ofStep = document.querySelector("#composer .stop-step");

export function start(page) {
  page.status ??= head.outerHTML + document.querySelector(".composer-field").outerHTML;
  button.addEventListener("click", () => stop(page));
  ofStep.addEventListener("click", () => stopAfterStep(page));
  page.on("drawn", () => look(page));
  page.on("status", () => look(page));
}

/** Stopping lasts until the log says that the task is over. */
function look(page) {
  ofStep.disabled = stopsAlready(page);
  if (!page.stopping) return;
  if (page.state.open.some(({ id }) => id === page.stopping)) show();
  else over(page);
}

function stopsAlready({ state }) {
  const task = busyTask(state);
  return state.items.some(({ kind, stops, ended, taskId }) => kind === "work" && stops && !ended && taskId === task?.id);
}

/** The log then says so, and the work shows it. */
async function stopAfterStep(page) {
  const task = busyTask(page.state);
  if (!task || ofStep.disabled) return;
  ofStep.disabled = true;
  page.composer.words.focus();
  try {
    await persist("POST", `/tasks/${task.id}/stop-after-step`, undefined, LOST);
  } catch (problem) {
    ofStep.disabled = stopsAlready(page);
    if (page.state.open.some(({ id }) => id === task.id)) page.complain(problem.message);
  }
}

function over(page) {
  page.stopping = null;
  page.showStatus();
}

function show() {
  if (button.disabled) return;
  head.replaceChildren(sign("working"), h("span", { class: "word" }, "Stopping…"));
  button.disabled = true;
  button.lastElementChild.textContent = "Stopping…";
}

async function stop(page) {
  const task = busyTask(page.state) ?? waitingTask(page.state);
  if (!task || page.stopping) return;
  page.stopping = task.id;
  page.announce("Stopping…");
  page.composer.words.focus();
  show();
  try {
    await persist("POST", `/tasks/${task.id}/cancel`, undefined, LOST);
  } catch (problem) {
    over(page);
    if (page.state.open.some(({ id }) => id === task.id)) page.complain(problem.message); // else it ended by itself: the page shows how
  }
}
