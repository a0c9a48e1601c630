// Stops running work, and says when that is done.
import { h, sign } from "../dom.js";
import { persist } from "../requests.js";
import { busyTask, waitingTask } from "./sending.js";

const LOST = "The task is still running. Press Stop again when you are back online.";
const head = document.getElementById("head-state");
const button = document.querySelector("#composer .stop");

export function start(page) {
  page.status ??= head.outerHTML + document.querySelector(".composer-field").outerHTML;
  button.addEventListener("click", () => stop(page));
  page.on("drawn", () => look(page));
  page.on("status", () => look(page));
}

/** Stopping lasts until the log says that the task is over. */
function look(page) {
  if (!page.stopping) return;
  if (page.state.open.some(({ id }) => id === page.stopping)) show();
  else over(page);
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
