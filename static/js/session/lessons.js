// What only some sessions have is learned before the first entry that tells of it.
import { WAITS } from "./reducer.js";

const LESSONS = [
  {
    load: () => import("./turns.js"),
    isOf: ({ type, taskId, opensTask, state }) => (type === "user_message" ? taskId && !opensTask : WAITS.has(state)),
  },
  { load: () => import("./streaming.js"), isOf: ({ type }) => /^agent_token(_start)?$/.test(type) },
  { load: () => import("./making.js"), isOf: ({ type, again, attempt }) => type === "artifact_update" || again || attempt > 1 },
  { load: () => import("./extras.js"), isOf: ({ type }) => /^(agent_switched|feedback|fork)$/.test(type) },
];

/** Null where all is known that these entries tell of; otherwise what waits until it is. It fails where it cannot be loaded. */
export function learning(entries) {
  const missing = LESSONS.filter(({ isKnown, isOf }) => !isKnown && entries.some(isOf));
  const learned = async (lesson) => {
    await lesson.load();
    lesson.isKnown = true;
  };
  return missing.length ? Promise.all(missing.map(learned)) : null;
}
