// The state of a session from its events. A pure function: the same events give the same state, over any connection.

export const begin = (id) => ({ id, last: 0, title: "", agent: "", tasks: {}, newest: null, messages: [], gone: false, archived: false, sharing: "private" });

/** The state after one more event; an old or repeated event changes nothing. */
export function reduce(state, event) {
  if (event.type.startsWith("local:")) return LOCAL[event.type](state, event);
  if (event.index <= state.last) return state;
  const opened = opening(state, event.payload.opens);
  return { ...(FOLDS[event.type]?.(opened, event) ?? opened), last: event.index };
}

const opening = (state, opens) => (opens ? { ...state, title: opens.title, agent: opens.agent } : state);

const FOLDS = {
  user_message: (state, event) => said(worked(state, event, event.payload.task && "submitted"), event, "user"),
  agent_status(state, event) {
    const next = worked(state, event, event.payload.state);
    return event.payload.message && !event.payload.progress ? said(next, event, "agent") : next;
  },
  agent_message: (state, event) => said(state, event, "agent"),
  agent_switched: (state, { payload }) => ({ ...state, agent: payload.slug }),
  fork: (state, { payload }) => ({ ...state, tasks: canceled(state.tasks, payload.left ?? []) }),
  session_renamed: (state, { payload }) => ({ ...state, title: payload.title }),
  session_archived: (state) => ({ ...state, archived: true }),
  session_unarchived: (state) => ({ ...state, archived: false }),
  session_shared: (state, { payload }) => ({ ...state, sharing: payload.sharing }),
  session_deleted: (state) => ({ ...begin(state.id), gone: true }),
};

function worked(state, { taskId }, now) {
  if (!taskId || !now) return state;
  const isNew = !state.tasks[taskId];
  return { ...state, tasks: { ...state.tasks, [taskId]: now }, newest: isNew ? taskId : state.newest };
}

const canceled = (tasks, left) => ({ ...tasks, ...Object.fromEntries(left.map((id) => [id, "canceled"])) });

/** A message replaces the one shown before it was confirmed: its messageId is the request's key. */
function said(state, event, role) {
  const { messageId, parts } = event.payload.message;
  const text = parts.map((part) => part.text ?? "").join("");
  const message = { messageId, role, text, index: event.index };
  return { ...state, messages: [...confirmed(state, messageId), message, ...pending(state, messageId)] };
}

const confirmed = (state, id) => state.messages.filter((one) => !one.pending && one.messageId !== id);
const pending = (state, id) => state.messages.filter((one) => one.pending && one.messageId !== id);

const LOCAL = {
  "local:sending": (state, { messageId, text }) =>
    state.messages.some((one) => one.messageId === messageId)
      ? state
      : { ...state, messages: [...state.messages, { messageId, role: "user", text, pending: true }] },
  "local:refused": (state, { messageId }) => ({
    ...state,
    messages: state.messages.filter((one) => !one.pending || one.messageId !== messageId),
  }),
};
