// The one place that says what an entry of the log does to what a page shows. Pure: nothing here touches the page, and a
// changed thing is a new object, so that the view redraws what changed and nothing else.

const ENDED = new Set(["completed", "failed", "rejected", "canceled"]);
const WAITS = new Set(["input-required", "auth-required"]);
const TEXT_KEPT = 20000; // characters of an artifact in the making that are kept to look at

/** Before the first entry; `agent` is whom the session is with, and who wrote what no entry says of. */
export function begin(artifacts = [], agent = null) {
  const kept = Object.fromEntries(artifacts.map((artifact) => [artifactKey(artifact), artifact]));
  return { last: 0, title: null, agent, items: [], tasks: {}, ratings: {}, artifacts: kept };
}

/** The state after an entry. One that is known already (sent again after a lost line) changes nothing. */
export function reduce(state, entry) {
  if (entry.index && entry.index <= state.last) return state;
  const next = FOLDS[entry.type]?.(taken(state, entry), entry) ?? state;
  return entry.index ? { ...next, last: entry.index } : next;
}

export function artifactKey({ taskId, artifactId }) {
  return `${taskId}/${artifactId}`;
}

/** The task that waits for the person, the newest first; and the one that is being worked on. */
export function waitingTask(state) {
  return newest(state, (task) => WAITS.has(task.state));
}

export function busyTask(state) {
  return newest(state, (task) => task.state === "submitted" || task.state === "working");
}

/** The task that what is written next belongs to: one of whom the session is with. Others are answered by their forms. */
export function addressedTask(state) {
  const here = (task) => !task.of || task.of === state.agent?.slug;
  const waits = newest(state, (task) => here(task) && WAITS.has(task.state));
  return waits ?? newest(state, (task) => here(task) && (task.state === "submitted" || task.state === "working"));
}

function newest(state, holds) {
  return Object.values(state.tasks).filter(holds).at(-1) ?? null;
}

/** Whoever an entry names has its task from there on: a stand-in, where the agent could not be reached. */
function taken(state, { type, taskId, agent }) {
  const task = state.tasks[taskId];
  if (!agent || !task || type === "user_message") return state;
  return { ...state, tasks: { ...state.tasks, [taskId]: { ...task, agent } } };
}

function writer(state, { taskId, agent }) {
  return agent ?? state.tasks[taskId]?.agent ?? state.agent;
}

// Messages

function userMessage(state, { message, at, taskId, opensTask, index, agent }) {
  const key = `message:${message.messageId}`;
  const busy = Boolean(taskId) && !opensTask && !WAITS.has(state.tasks[taskId]?.state);
  const item = { kind: "message", key, role: "user", at, taskId, index, parts: message.parts, text: message.text };
  const said = push(without(state, key), { ...item, messageId: message.messageId, queued: busy });
  if (!opensTask) return said;
  const about = { agent: agent ?? state.agent, of: agent?.slug }; // who has it now, and whom it was given to
  const task = { id: taskId, state: "submitted", at, opensWith: message.messageId, ...about };
  return openWork({ ...said, tasks: { ...said.tasks, [taskId]: task } }, taskId, at);
}

function agentMessage(state, entry, more = {}) {
  const { message, at, taskId, index } = entry;
  const item = {
    kind: "message", role: "agent", agent: writer(state, entry), at, taskId, index, parts: message.parts, text: message.text,
    messageId: message.messageId, ...more,
  };
  const streamed = streamedAlready(state, taskId, message.text);
  if (streamed) return change(state, streamed.key, { ...item, key: streamed.key });
  return push(state, { ...item, key: `message:${message.messageId}` });
}

/** The streamed text of the task's turn that a final message repeats: the message takes its place. */
function streamedAlready(state, taskId, text) {
  for (const item of state.items.toReversed()) {
    if (item.kind === "work" && item.taskId === taskId) return null;
    if (item.artifactId && item.taskId === taskId && item.text.trim() === text.trim()) return item;
  }
  return null;
}

// Work

function openWork(state, taskId, at) {
  const number = state.items.filter((item) => item.kind === "work" && item.taskId === taskId).length + 1;
  const work = { kind: "work", key: `work:${taskId}:${number}`, taskId, began: at, ended: null, steps: [], attempt: 1 };
  return push(state, work);
}

function workOf(state, taskId) {
  return state.items.findLast((item) => item.kind === "work" && item.taskId === taskId && !item.ended);
}

function agentStart(state, { taskId, at, attempt, turn, messageId, again = false }) {
  const anew = again || attempt > 1;
  let next = state.items.some((item) => item.messageId === messageId && item.queued)
    ? { ...state, items: state.items.map((item) => (item.messageId === messageId ? { ...item, queued: false } : item)) }
    : state;
  const open = workOf(next, taskId);
  if (open?.turn && open.turn !== turn) next = change(next, open.key, { ended: at, outcome: "working", making: null });
  if (!workOf(next, taskId)) next = openWork(next, taskId, at);
  const begun = { turn, attempt, started: at, progress: null, making: null };
  next = change(next, workOf(next, taskId).key, anew ? { ...begun, steps: [] } : begun);
  return anew ? withoutUnfinished(next, taskId) : next;
}

/** What an attempt that was cut off, or given back, had begun is begun again. */
function withoutUnfinished(state, taskId) {
  const items = state.items.filter((item) => !(item.taskId === taskId && item.streaming));
  return { ...withoutMaking(state, taskId), items };
}

function withoutMaking(state, taskId) {
  const kept = Object.entries(state.artifacts).filter(([, one]) => !(one.taskId === taskId && one.making));
  return { ...state, artifacts: Object.fromEntries(kept) };
}

function agentStatus(state, entry) {
  const { taskId, at } = entry;
  const before = state.tasks[taskId] ?? { id: taskId };
  const wantsCredential = entry.wantsCredential ?? false;
  let next = { ...state, tasks: { ...state.tasks, [taskId]: { ...before, state: entry.state, at, wantsCredential } } };
  if (entry.progress) return addStep(next, taskId, { kind: "progress", at, text: entry.progress.text }, entry.progress);
  if (entry.state === "working") {
    next = answered(next, taskId);
    return workOf(next, taskId) ? next : openWork(next, taskId, at);
  }
  const work = workOf(next, taskId);
  if (work) next = change(next, work.key, { ended: at, outcome: entry.state, making: null });
  if (ENDED.has(entry.state)) next = ended(answered(next, taskId), taskId, entry.state);
  return entry.message ? agentMessage(next, entry, spoken(next, entry)) : next;
}

/** What a change of state adds to its message: the question's form, the files, what to do after a failure. */
function spoken(state, { state: name, taskId, form }) {
  if (WAITS.has(name)) return { asks: true, form: form ?? null };
  if (name === "completed") return { outcome: name, files: state.tasks[taskId].files ?? [] };
  return { outcome: name };
}

function answered(state, taskId) {
  const asked = state.items.findLast((item) => item.taskId === taskId && item.asks);
  return asked ? change(state, asked.key, { asks: false, form: null }) : state;
}

function ended(state, taskId, outcome) {
  const items = state.items.map((item) => (item.taskId === taskId && item.streaming ? { ...item, streaming: false } : item));
  const next = { ...state, items };
  return outcome === "completed" ? next : withoutMaking(next, taskId);
}

function addStep(state, taskId, step, progress = undefined) {
  const work = workOf(state, taskId);
  if (!work) return state;
  const last = work.steps.at(-1);
  const repeats = step.kind === "progress" && last?.kind === "progress" && last.text === step.text;
  const steps = repeats ? work.steps : [...work.steps, step];
  return change(state, work.key, progress ? { steps, progress } : { steps });
}

function toolResult(state, { taskId, callId, value, isError }) {
  const work = workOf(state, taskId);
  if (!work) return state;
  const steps = work.steps.map((step) => (step.callId === callId ? { ...step, result: value, isError } : step));
  return change(state, work.key, { steps });
}

// Streams

function token(state, { taskId, artifactId, text, at, index }) {
  const key = `stream:${artifactId}`;
  const known = state.items.find((item) => item.key === key);
  if (known) return change(state, key, { text: known.text + text });
  const about = { kind: "message", key, role: "agent", agent: writer(state, { taskId }), at, taskId, index };
  return push(state, { ...about, artifactId, text, parts: [], streaming: true });
}

function tokenEnd(state, entry) {
  const { artifactId, text, html } = entry;
  const key = `stream:${artifactId}`;
  const known = state.items.some((item) => item.key === key) ? state : token(state, { ...entry, text: "" });
  return change(known, key, { text, parts: [{ kind: "text", text, html }], streaming: false });
}

function artifactUpdate(state, entry) {
  const { taskId, artifactId, begins, size, index } = entry;
  const key = artifactKey(entry);
  const before = begins ? null : state.artifacts[key];
  const artifact = {
    taskId,
    artifactId,
    making: true,
    name: before?.name ?? (entry.name || artifactId),
    firstEvent: before?.firstEvent ?? index,
    size: (before?.size ?? 0) + size,
    text: ((before?.text ?? "") + entry.text).slice(-TEXT_KEPT),
    parts: [],
  };
  const next = { ...state, artifacts: { ...state.artifacts, [key]: artifact } };
  const work = workOf(next, taskId);
  return work ? change(next, work.key, { making: { name: artifact.name, size: artifact.size } }) : next;
}

function agentComplete(state, { taskId, artifacts }) {
  const delivered = Object.fromEntries(artifacts.map((artifact) => [artifactKey(artifact), artifact]));
  const next = withoutMaking(state, taskId);
  const task = { ...(state.tasks[taskId] ?? { id: taskId }), files: Object.keys(delivered) };
  return {
    ...next,
    artifacts: { ...next.artifacts, ...delivered },
    tasks: { ...next.tasks, [taskId]: task },
  };
}

// What this page itself does, until the log says it

function sending(state, { messageId, parts, text, at }) {
  const item = { kind: "message", key: `message:${messageId}`, role: "user", at, messageId, parts, text, pending: true };
  return state.items.some((one) => one.key === item.key) ? change(state, item.key, { unsent: "" }) : push(state, item);
}

function unsent(state, { messageId, sentence }) {
  const item = state.items.find((one) => one.key === `message:${messageId}`);
  return item?.pending ? change(state, item.key, { unsent: sentence }) : state;
}

function takenBack(state, { messageId }) {
  const item = state.items.find((one) => one.key === `message:${messageId}`);
  return item?.pending ? without(state, item.key) : state;
}

// Items

function push(state, item) {
  return { ...state, items: [...state.items, item] };
}

function without(state, key) {
  const items = state.items.filter((item) => item.key !== key);
  return items.length === state.items.length ? state : { ...state, items };
}

function change(state, key, changes) {
  return { ...state, items: state.items.map((item) => (item.key === key ? { ...item, ...changes } : item)) };
}

const FOLDS = {
  user_message: userMessage,
  agent_message: agentMessage,
  agent_start: agentStart,
  agent_status: agentStatus,
  agent_token_start: token,
  agent_token: token,
  agent_token_end: tokenEnd,
  agent_thought: (state, { taskId, text, at }) => addStep(state, taskId, { kind: "thought", at, text }),
  agent_tool_call: (state, { taskId, callId, name, value, at }) =>
    addStep(state, taskId, { kind: "tool", at, callId, name, value }),
  agent_tool_result: toolResult,
  artifact_update: artifactUpdate,
  agent_complete: agentComplete,
  feedback: (state, { taskId, rating }) => ({ ...state, ratings: { ...state.ratings, [taskId]: rating } }),
  session_renamed: (state, { title }) => ({ ...state, title }),
  agent_switched: (state, { agent, at, index }) =>
    push({ ...state, agent }, { kind: "switch", key: `switch:${index}`, agent, at }),
  "local:sending": sending,
  "local:unsent": unsent,
  "local:taken-back": takenBack,
};
