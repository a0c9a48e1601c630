// Applies an entry of the log to the state of a page. Changes the state and its lists in place, so that an entry costs no more in a
// long session. Replaces changed items, so that the view redraws only those.
import { bytes } from "../format.js";

const ENDED = new Set(["completed", "failed", "rejected", "canceled"]);
export const WAITS = new Set(["input-required", "auth-required"]);
const TEXT_KEPT = 20_000; // characters kept of an artifact in progress
const LONGEST_OPEN = 2000; // bytes: the list of files has longer ones; as in `texts.py`

/** The state before the first entry; `agent` is the session's. */
export function begin(agent = null) {
  const shown = { last: 0, title: null, agent, items: [], tasks: {}, ratings: {}, artifacts: {} }; // artifacts in progress
  return { ...shown, places: new Map(), turns: new Map(), open: new Set() }; // items by key, tasks, unfinished tasks
}

/** The state after an entry. A repeated entry (sent again after a lost connection) changes nothing. */
export function reduce(state, entry) {
  if (entry.index && entry.index <= state.last) return state;
  taken(state, entry);
  FOLDS[entry.type]?.(state, entry);
  if (entry.index) state.last = entry.index;
  return state;
}

// Tasks

/** Whether a task works, and does not only wait for the person. */
export const isBusy = ({ open, tasks }) => [...open].some((id) => !WAITS.has(tasks[id].state));

function changeTask(state, id, changes) {
  const task = (state.tasks[id] = { ...(state.tasks[id] ?? { id }), ...changes });
  if (ENDED.has(task.state)) state.open.delete(id);
  else if (task.state) state.open.add(id);
}

const NO_TURN = { work: null, works: 0, streams: [], streaming: [], making: [], queued: [], asked: null };

/** The page's data of a task: its open work and the count of work, its streams, what is queued, its question. */
function turnOf({ turns }, taskId) {
  return turns.get(taskId) ?? NO_TURN;
}

function changeTurn(state, taskId, changes) {
  state.turns.set(taskId, { ...turnOf(state, taskId), ...changes });
}

/** A fallback has the task from there on, if the agent could not be reached. */
function taken(state, { type, taskId, agent, progress }) {
  if (agent && state.tasks[taskId] && (type === "agent_start" || progress)) changeTask(state, taskId, { agent });
}

function writer(state, { taskId, agent }) {
  return agent ?? state.tasks[taskId]?.agent ?? state.agent;
}

// Messages

function userMessage(state, { message, at, taskId, opensTask, index, agent, by }) {
  const key = `message:${message.messageId}`;
  const isQueued = Boolean(taskId) && !opensTask && !WAITS.has(state.tasks[taskId]?.state);
  drop(state, key);
  push(state, { kind: "message", key, role: "user", by, at, taskId, index, ...message, ...(isQueued && { queued: true }) });
  if (isQueued) changeTurn(state, taskId, { queued: [...turnOf(state, taskId).queued, key] });
  if (!opensTask) return;
  const about = { agent: agent ?? state.agent, of: agent?.slug }; // the task's current agent, and the original one
  changeTask(state, taskId, { state: "submitted", at, opensWith: message.messageId, ...about });
  openWork(state, taskId, at);
}

function agentMessage(state, entry, more = {}) {
  const { at, taskId, index } = entry;
  const { repeats, ...message } = entry.message;
  const own = `message:${message.messageId || index}`; // without an id: a completion without an answer
  const key = repeats ? `stream:${repeats}` : (streamedAlready(state, taskId, message) ?? own);
  const item = { kind: "message", key, role: "agent", agent: writer(state, entry), at, taskId, index, ...message, ...more };
  if (state.places.has(key)) change(state, key, { ...item, streaming: false });
  else push(state, item);
}

/** The stream that a final message repeats: the message replaces it. */
function streamedAlready(state, taskId, { text, textAt }) {
  if (textAt) return null; // the text was left out, and repeats no stream
  const said = text.trim();
  return turnOf(state, taskId).streams.findLast((key) => itemOf(state, key).text.trim() === said);
}

// Work

function openWork(state, taskId, at) {
  const works = turnOf(state, taskId).works + 1;
  const key = `work:${taskId}:${works}`;
  changeTurn(state, taskId, { work: key, works, streams: [] });
  push(state, { kind: "work", key, taskId, began: at, ended: null, steps: [], attempt: 1 });
}

function closeWork(state, taskId, ended, outcome) {
  const { work } = turnOf(state, taskId);
  if (work) change(state, work, { ended, outcome, making: null });
  changeTurn(state, taskId, { work: null });
}

const workOf = (state, taskId) => itemOf(state, turnOf(state, taskId).work);

function agentStart(state, { taskId, at, attempt, turn, messageId, again }) {
  const began = `message:${messageId}`;
  if (itemOf(state, began)?.queued) change(state, began, { queued: false });
  const open = workOf(state, taskId);
  if (open?.turn && open.turn !== turn) closeWork(state, taskId, at, "working");
  if (!workOf(state, taskId)) openWork(state, taskId, at);
  change(state, turnOf(state, taskId).work, { turn, attempt, started: at, progress: null, making: null });
  if (again || attempt > 1) dropUnfinished(state, taskId);
}

function agentStatus(state, entry) {
  const { taskId, at } = entry;
  const { asked } = turnOf(state, taskId);
  if (!entry.progress && !WAITS.has(entry.state)) settleQuestion(state, taskId);
  if (entry.decided && asked) change(state, asked, { html: entry.decided, isDecided: true });
  if (entry.receipt && asked) change(state, asked, { html: itemOf(state, asked).html + entry.receipt });
  changeTask(state, taskId, { state: entry.state, at, wantsCredential: entry.wantsCredential ?? false });
  if (entry.progress) {
    const { text, detail } = entry.progress;
    return addStep(state, taskId, { kind: "progress", at, text, detail }, entry.progress);
  }
  if (entry.state === "working") {
    if (!workOf(state, taskId)) openWork(state, taskId, at);
    return;
  }
  closeWork(state, taskId, at, entry.state);
  if (entry.message) agentMessage(state, entry, ENDED.has(entry.state) ? { outcome: entry.state, used: state.tasks[taskId].used } : {});
  if (WAITS.has(entry.state) && entry.message) ask(state, entry);
  if (ENDED.has(entry.state)) endTurn(state, taskId, entry.state);
}

/** An artifact that was queued counts only if the task completed. */
function endTurn(state, taskId, outcome) {
  const { streaming, queued } = turnOf(state, taskId);
  for (const key of streaming) change(state, key, { streaming: false });
  for (const key of queued) {
    if (itemOf(state, key)?.queued) change(state, key, { queued: false, unread: outcome !== "completed" });
  }
  changeTurn(state, taskId, { streaming: [], queued: [] });
  if (outcome !== "completed") dropMaking(state, taskId);
}

// Questions

function ask(state, { taskId, message, form = null }) {
  const { key } = state.items.findLast(({ messageId }) => messageId === message.messageId);
  change(state, key, { asks: true, form });
  changeTurn(state, taskId, { asked: key });
}

function settleQuestion(state, taskId) {
  const { asked } = turnOf(state, taskId);
  if (!asked) return;
  change(state, asked, { asks: false, form: null });
  changeTurn(state, taskId, { asked: null });
}

function addStep(state, taskId, step, progress = undefined) {
  const work = workOf(state, taskId);
  if (!work) return;
  const last = work.steps.at(-1);
  const repeats = step.kind === "progress" && last?.kind === "progress" && last.text === step.text;
  const steps = repeats ? work.steps : [...work.steps, step];
  change(state, work.key, progress ? { steps, progress } : { steps });
}

/** A page of a tool server calls its tools beside the work of a task. */
function toolCall(state, { taskId, ofApp, ...step }) {
  if (!ofApp) return addStep(state, taskId, { ...step, kind: "tool" });
  const app = itemOf(state, `app:${ofApp}`);
  if (app) change(state, app.key, { calls: [...app.calls, step.name] });
}

function toolResult(state, { taskId, callId, value, isError, app, index, at }) {
  if (app) push(state, { ...app, kind: "app", key: `app:${index}`, taskId, index, at, calls: [], ofWork: turnOf(state, taskId).work });
  const work = workOf(state, taskId);
  if (!work) return;
  const steps = work.steps.map((step) => (step.callId === callId ? { ...step, result: value, isError } : step));
  change(state, work.key, { steps });
}

// Streams

function token(state, entry) {
  const key = `stream:${entry.artifactId}`;
  const known = itemOf(state, key);
  if (known) change(state, key, { text: known.text + entry.text });
  else openStream(state, entry);
}

function openStream(state, { taskId, artifactId, text, at, index }) {
  const key = `stream:${artifactId}`;
  const about = { kind: "message", key, role: "agent", agent: writer(state, { taskId }), at, taskId, index };
  const { streams, streaming } = turnOf(state, taskId);
  changeTurn(state, taskId, { streams: [...streams, key], streaming: [...streaming, key] });
  push(state, { ...about, artifactId, text, streaming: true });
}

function tokenEnd(state, entry) {
  const { taskId, artifactId, text, html } = entry;
  const key = `stream:${artifactId}`;
  if (!itemOf(state, key)) openStream(state, entry);
  changeTurn(state, taskId, { streaming: turnOf(state, taskId).streaming.filter((one) => one !== key) });
  change(state, key, { text, html, streaming: false });
}

// Artifacts: in progress, then delivered, unfinished or void. The conversation shows texts.

export const artifactKey = ({ taskId, artifactId }) => `${taskId}/${artifactId}`;
const madeKey = (artifact) => `made:${artifactKey(artifact)}`;

function artifactUpdate(state, entry) {
  const { taskId, artifactId, begins, size, index, at } = entry;
  const key = artifactKey(entry);
  const before = begins ? null : state.artifacts[key];
  const isText = entry.isText && (before?.isText ?? true);
  const whole = (before?.size ?? 0) + size;
  const artifact = {
    taskId,
    artifactId,
    name: before?.name ?? (entry.name || artifactId),
    firstEvent: before?.firstEvent ?? index,
    size: whole,
    text: ((before?.text ?? "") + entry.text).slice(-TEXT_KEPT),
    isText,
    hasName: before?.hasName || entry.hasName,
  };
  artifact.isListed = artifact.hasName || !isText || whole > LONGEST_OPEN;
  state.artifacts[key] = artifact;
  const { making } = turnOf(state, taskId);
  if (!making.includes(key)) changeTurn(state, taskId, { making: [...making, key] });
  const work = workOf(state, taskId);
  if (work) change(state, work.key, { making: { name: artifact.name, size: isText ? "" : bytes(whole) } });
  if (isText) show(state, { ...artifact, at, index, isMaking: true, about: bytes(whole) });
  else drop(state, madeKey(artifact));
}

/** A text in the conversation. */
function show(state, artifact) {
  const key = madeKey(artifact);
  const item = { ...artifact, kind: "made", key };
  if (itemOf(state, key)) state.items[state.places.get(key)] = item;
  else push(state, item);
}

/** Artifacts that an entry delivers, or leaves unfinished. */
function settle(state, { artifacts = [], at, index }) {
  for (const artifact of artifacts) {
    const { taskId, artifactId, kind, text, html, isUnfinished } = artifact;
    const stream = `stream:${artifactId}`;
    if (kind === "answer") leaveStream(state, { taskId, artifactId, text, html, at, index });
    else if (kind !== "text" || itemOf(state, stream)) drop(state, madeKey(artifact));
    else show(state, { ...artifact, at, index, isMaking: false, isFolded: !html });
    if (isUnfinished) forget(state, taskId, [artifactId]);
  }
}

function leaveStream(state, { html, ...entry }) {
  const key = `stream:${entry.artifactId}`;
  if (!itemOf(state, key)) openStream(state, entry);
  change(state, key, { text: entry.text, html, streaming: false, unfinished: true });
}

/** What failed or was stopped: other artifacts than those of the entry are void. */
function agentFailed(state, entry) {
  const { taskId, discarded, artifacts } = entry;
  settle(state, entry);
  const left = new Set(artifacts.map(({ artifactId }) => artifactId));
  const isVoid = discarded.filter((artifactId) => !left.has(artifactId));
  for (const artifactId of isVoid) {
    drop(state, `stream:${artifactId}`);
    drop(state, madeKey({ taskId, artifactId }));
  }
  forget(state, taskId, isVoid);
}

function agentComplete(state, entry) {
  const { taskId, used } = entry;
  settle(state, entry);
  dropMaking(state, taskId);
  if (used) changeTask(state, taskId, { used }); // the message comes next
}

/** They are no longer in progress. */
function forget(state, taskId, artifactIds) {
  const { making, streaming, streams } = turnOf(state, taskId);
  const keys = new Set(artifactIds.flatMap((artifactId) => [artifactKey({ taskId, artifactId }), `stream:${artifactId}`]));
  const isLeft = (key) => !keys.has(key);
  for (const key of keys) delete state.artifacts[key];
  const rest = { making: making.filter(isLeft), streaming: streaming.filter(isLeft), streams: streams.filter(isLeft) };
  changeTurn(state, taskId, rest);
}

/** An attempt that was interrupted, or given back, begins again. */
function dropUnfinished(state, taskId) {
  const { work, streams, streaming } = turnOf(state, taskId);
  change(state, work, { steps: [] });
  for (const { key } of state.items.filter(({ ofWork }) => ofWork && ofWork === work)) drop(state, key);
  dropMaking(state, taskId);
  for (const key of streaming) drop(state, key);
  changeTurn(state, taskId, { streaming: [], streams: streams.filter((key) => !streaming.includes(key)) });
}

/** Also drops their texts that nothing has settled. */
function dropMaking(state, taskId) {
  const { making } = turnOf(state, taskId);
  if (!making.length) return;
  for (const key of making) {
    delete state.artifacts[key];
    if (itemOf(state, `made:${key}`)?.isMaking) drop(state, `made:${key}`);
  }
  changeTurn(state, taskId, { making: [] });
}

// Items

export function itemOf({ items, places }, key) {
  return items[places.get(key)];
}

export function push({ items, places }, item) {
  places.set(item.key, items.push(item) - 1);
}

export function change({ items, places }, key, changes) {
  const place = places.get(key);
  items[place] = { ...items[place], ...changes };
}

export function drop({ items, places }, key) {
  const place = places.get(key);
  if (place === undefined) return;
  items.splice(place, 1);
  places.delete(key);
  for (let next = place; next < items.length; next += 1) places.set(items[next].key, next);
}

const FOLDS = {
  user_message: userMessage,
  agent_message: agentMessage,
  agent_start: agentStart,
  agent_status: agentStatus,
  agent_thought: (state, { taskId, ...step }) => addStep(state, taskId, { ...step, kind: "thought" }),
  agent_tool_call: toolCall,
  agent_tool_result: toolResult,
  agent_token_start: token,
  agent_token: token,
  agent_token_end: tokenEnd,
  artifact_update: artifactUpdate,
  agent_complete: agentComplete,
  agent_failed: agentFailed,
  agent_cancelled: agentFailed,
  session_renamed(state, { title }) {
    state.title = title;
  },
  agent_switched(state, { agent, at, index, isKept }) {
    state.agent = agent;
    if (!isKept) push(state, { kind: "switch", key: `switch:${index}`, agent, at, index });
  },
  feedback(state, { taskId, rating }) {
    state.ratings[taskId] = rating;
  },
  /** A fork ends everything that was unfinished at its beginning. */
  fork(state, { left, leftAt, ...entry }) {
    settle(state, entry);
    for (const taskId of left) reduce(state, { type: "agent_status", taskId, at: leftAt, state: "canceled" });
  },
};
