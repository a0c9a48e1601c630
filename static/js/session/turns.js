// What is reduced of a task that has several turns: its questions, their answers, and what was said while it worked.
import { h, safe } from "../dom.js";
import { ENDED, WAITS, change, changeTurn, itemOf, learn, turnOf } from "./reducer.js";
import { draws } from "./view.js";

const forms = new Map(); // of questions, as they are filled in

draws({
  /** However often it is drawn, what was filled in stays. */
  question(element, { key, form }) {
    if (forms.get(key)?.said !== form) forms.set(key, { said: form, drawn: safe(h("div"), form).firstElementChild });
    element.append(forms.get(key).drawn);
  },
});

learn({
  user_message(state, entry, said) {
    const { message, taskId, opensTask } = entry;
    said(state, entry);
    if (!taskId || opensTask || WAITS.has(state.tasks[taskId]?.state)) return;
    const key = `message:${message.messageId}`;
    change(state, key, { queued: true });
    changeTurn(state, taskId, { queued: [...turnOf(state, taskId).queued, key] });
  },
  agent_start(state, entry, begun) {
    const said = `message:${entry.messageId}`;
    if (itemOf(state, said)?.queued) change(state, said, { queued: false });
    begun(state, entry);
  },
  agent_status(state, entry, changed) {
    const { taskId, state: now, message } = entry;
    if (!entry.progress && !WAITS.has(now)) answered(state, taskId);
    changed(state, entry);
    if (WAITS.has(now) && message) asks(state, entry);
    if (ENDED.has(now)) unqueue(state, taskId, now);
  },
});

/** The question's message has its form. */
function asks(state, { taskId, message, form = null }) {
  const { key } = state.items.findLast(({ messageId }) => messageId === message.messageId);
  change(state, key, { asks: true, form });
  changeTurn(state, taskId, { asked: key });
}

function answered(state, taskId) {
  const { asked } = turnOf(state, taskId);
  if (!asked) return;
  change(state, asked, { asks: false, form: null });
  changeTurn(state, taskId, { asked: null });
}

function unqueue(state, taskId, outcome) {
  for (const key of turnOf(state, taskId).queued) {
    if (itemOf(state, key)?.queued) change(state, key, { queued: false, unread: outcome !== "completed" });
  }
  changeTurn(state, taskId, { queued: [] });
}
