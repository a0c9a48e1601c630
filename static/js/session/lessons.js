// What only some sessions have is learned before the first entry that tells of it.
import { WAITS } from "./reducer.js";

const LONG = 6000; // characters of a message that are folded, as in extras.js
const SELDOM = new Set(["agent_switched", "feedback", "fork"]);

const LESSONS = [
  {
    load: () => import("./turns.js"),
    isOf: ({ type, taskId, opensTask, state }) => (type === "user_message" ? taskId && !opensTask : WAITS.has(state)),
  },
  { load: () => import("./streaming.js"), isOf: ({ type }) => /^agent_token(_start)?$/.test(type) },
  { load: () => import("./making.js"), isOf: ({ type, again, attempt }) => type === "artifact_update" || again || attempt > 1 },
  { load: () => import("./extras.js"), isOf: ({ type, message }) => SELDOM.has(type) || (message && !isPlain(type, message)) },
];

/** Is it nothing but words, and not too many? */
function isPlain(type, { text, parts, references }) {
  const isShort = type !== "user_message" || text.length <= LONG;
  return isShort && !references && parts.every(({ kind, values }) => kind === "text" || values?.length === 1);
}

/** Null where all is known that these entries tell of; otherwise what waits until it is. It fails where it cannot be loaded. */
export function learning(entries) {
  const missing = LESSONS.filter(({ isKnown, isOf }) => !isKnown && entries.some(isOf));
  const learned = async (lesson) => {
    await lesson.load();
    lesson.isKnown = true;
  };
  return missing.length ? Promise.all(missing.map(learned)) : null;
}
