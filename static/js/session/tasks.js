// Which of a session's tasks is meant: the one that waits for the person, that is worked on, that is written to.
import { WAITS } from "./reducer.js";

/** The task that waits for the person, the newest first; and the one that is being worked on. */
export function waitingTask(state) {
  return newest(state, (task) => WAITS.has(task.state));
}

export function busyTask(state) {
  return newest(state, (task) => !WAITS.has(task.state));
}

/** The task that what is written next belongs to: one of whom the session is with. Others are answered by their forms. */
export function addressedTask(state) {
  const here = (task) => !task.of || task.of === state.agent?.slug;
  return newest(state, (task) => here(task) && WAITS.has(task.state)) ?? newest(state, here);
}

function newest({ open, tasks }, holds) {
  return [...open].map((id) => tasks[id]).findLast(holds) ?? null;
}
