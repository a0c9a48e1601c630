// Stopping what runs, and saying when that is done.
import { post } from "../post.js";
import { busyTask, waitingTask } from "./standing.js";

export function start(page) {
  document.querySelector("#composer .stop").addEventListener("click", () => stop(page));
  page.on("drawn", () => {
    const { id } = page.stopping ?? {};
    if (!id || isOpen(page, id)) return;
    page.stopping = null;
    page.drawSoon();
  });
}

const isOpen = ({ state }, id) => state.open.has(id);

async function stop(page) {
  const task = busyTask(page.state) ?? waitingTask(page.state);
  if (!task || page.stopping) return;
  page.stopping = task; // the head says so until the log says that it is done
  page.announce("Stopping…");
  page.drawSoon();
  page.composer.words.focus();
  const form = new FormData();
  form.append("task", task.id);
  try {
    await post(page.beginning.stop, form);
  } catch (problem) {
    page.stopping = null;
    page.drawSoon();
    if (problem.status !== 409) page.complain(problem.message); // it ended by itself: the page shows how
  }
}
