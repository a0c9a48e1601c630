// What the page itself does to its state, until the log says it.
import { change, drop, itemOf, learn, push } from "./reducer.js";

const keyOf = (messageId) => `message:${messageId}`;

learn({
  "local:sending"(state, { messageId, parts, text, at }) {
    const key = keyOf(messageId);
    if (!itemOf(state, key)) push(state, { kind: "message", key, role: "user", at, messageId, parts, text, pending: true });
  },
  "local:waits"(state, { messageId, waits }) {
    const key = keyOf(messageId);
    if (itemOf(state, key)?.pending) change(state, key, { waits });
  },
  "local:taken-back"(state, { messageId }) {
    const key = keyOf(messageId);
    if (itemOf(state, key)?.pending) drop(state, key);
  },
});
