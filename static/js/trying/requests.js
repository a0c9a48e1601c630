// The requests that the console offers, in the words of each version of A2A.
import { uuid } from "../ids.js";

/** `takes` is what the form asks for: words, a task, or nothing. `old` is the method's name in 0.3, which lacks some. */
export const OPERATIONS = [
  { name: "SendMessage", old: "message/send", takes: "words", hint: "Sends a message, and waits until the agent has answered or asks something." },
  { name: "SendStreamingMessage", old: "message/stream", takes: "words", hint: "Sends a message; what happens comes as a stream of events." },
  { name: "GetTask", old: "tasks/get", takes: "task", hint: "Shows a task as it is now." },
  { name: "ListTasks", old: "", takes: "nothing", hint: "Lists your tasks with this agent, the newest first." },
  { name: "CancelTask", old: "tasks/cancel", takes: "task", hint: "Stops a task that has not ended." },
  { name: "SubscribeToTask", old: "tasks/resubscribe", takes: "task", hint: "Follows a task that has not ended, as a stream of events." },
];

export const OLD = "0.3";

let numbers = 0;
const made = new Set(); // ids of messages that were chosen here

/** What the form says, as a request of JSON-RPC. */
export function requestOf(operation, version, { words, task }) {
  const method = version === OLD ? operation.old : operation.name;
  return { jsonrpc: "2.0", id: ++numbers, method, params: PARAMS[operation.takes](version === OLD, words, task) };
}

const PARAMS = {
  words: (isOld, text, taskId) => ({
    message: {
      ...(isOld ? { kind: "message" } : {}),
      messageId: newId(),
      role: isOld ? "user" : "ROLE_USER",
      parts: [isOld ? { kind: "text", text } : { text }],
      ...(taskId ? { taskId } : {}),
    },
  }),
  task: (isOld, words, id) => ({ id }),
  nothing: () => ({ pageSize: 10 }),
};

function newId() {
  const id = uuid();
  made.add(id);
  return id;
}

/** The request that is to be sent next: with ids that were not used. A message's id that somebody wrote by hand stays. */
export function saidAnew(request) {
  const message = request.params?.message;
  request.id = ++numbers;
  if (made.has(message?.messageId)) message.messageId = newId();
  return request;
}

/** The task that an answer or an event speaks of: {id, hasEnded}; null where it speaks of none. */
export function taskIn(said) {
  const result = said?.result;
  const about = result?.task ?? result?.statusUpdate ?? result?.artifactUpdate ?? result;
  const id = about?.taskId ?? (about?.status ? about.id : undefined);
  if (typeof id !== "string") return null;
  const state = String(about.status?.state ?? "");
  return { id, hasEnded: /completed|failed|canceled|rejected/i.test(state) };
}

/** An event or an answer in a few words. */
export function inWords(said) {
  if (said?.error) return `error ${said.error.code ?? ""}: ${said.error.message ?? ""}`;
  const result = said?.result ?? {};
  const [kind] = Object.keys(result).filter((name) => ["task", "message", "statusUpdate", "artifactUpdate"].includes(name));
  const about = kind ? result[kind] : result;
  const state = typeof about.status?.state === "string" ? about.status.state.replace("TASK_STATE_", "").toLowerCase().replaceAll("_", "-") : "";
  const text = [about.status?.message?.parts, about.parts, about.artifact?.parts].flatMap((parts) => (Array.isArray(parts) ? parts : []))
    .map((part) => part?.text).filter((one) => typeof one === "string").join(" ");
  return [kind ?? result.kind ?? "result", state, text && `“${text.slice(0, 80)}${text.length > 80 ? "…" : ""}”`].filter(Boolean).join(" · ");
}
