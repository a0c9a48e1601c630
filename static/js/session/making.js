// What is reduced while an agent makes artifacts piece by piece, and of what an attempt that is begun again had begun.
import { bytes } from "../sizes.js";
import { ENDED, change, changeTurn, drop, learn, turnOf, workOf } from "./reducer.js";

const TEXT_KEPT = 20000; // characters of an artifact in the making that are kept to look at

export const artifactKey = ({ taskId, artifactId }) => `${taskId}/${artifactId}`;

learn({
  artifact_update(state, entry) {
    const { taskId, artifactId, begins, size, index } = entry;
    const key = artifactKey(entry);
    const before = begins ? null : state.artifacts[key];
    const artifact = {
      taskId,
      artifactId,
      name: before?.name ?? (entry.name || artifactId),
      firstEvent: before?.firstEvent ?? index,
      size: (before?.size ?? 0) + size,
      text: ((before?.text ?? "") + entry.text).slice(-TEXT_KEPT),
    };
    state.artifacts[key] = artifact;
    const { making } = turnOf(state, taskId);
    if (!making.includes(key)) changeTurn(state, taskId, { making: [...making, key] });
    const work = workOf(state, taskId);
    if (work) change(state, work.key, { making: { name: artifact.name, size: bytes(artifact.size) } });
  },
  agent_start(state, entry, begun) {
    begun(state, entry);
    if (entry.again || entry.attempt > 1) withoutUnfinished(state, entry.taskId);
  },
  agent_status(state, entry, changed) {
    changed(state, entry);
    if (ENDED.has(entry.state) && entry.state !== "completed") withoutMaking(state, entry.taskId);
  },
  agent_complete: (state, { taskId }) => withoutMaking(state, taskId),
});

/** What an attempt that was cut off, or given back, had begun is begun again. */
function withoutUnfinished(state, taskId) {
  const { work, streams, streaming } = turnOf(state, taskId);
  change(state, work, { steps: [] });
  withoutMaking(state, taskId);
  for (const key of streaming) drop(state, key);
  changeTurn(state, taskId, { streaming: [], streams: streams.filter((key) => !streaming.includes(key)) });
}

function withoutMaking(state, taskId) {
  const { making } = turnOf(state, taskId);
  if (!making.length) return;
  for (const key of making) delete state.artifacts[key];
  changeTurn(state, taskId, { making: [] });
}
