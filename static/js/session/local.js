// What the page itself does to its state, until the log says it.
import { h, icon } from "../dom.js";
import { bytes } from "../sizes.js";
import { change, drop, itemOf, learn, push } from "./reducer.js";

const keyOf = (messageId) => `message:${messageId}`;

learn({
  /** `files`: [{name, size, type}]. */
  "local:sending"(state, { messageId, text, files, at }) {
    const key = keyOf(messageId);
    const item = { kind: "message", key, role: "user", at, messageId, text, files, pending: true };
    if (!itemOf(state, key)) push(state, { ...item, html: drawn(item) });
  },
  "local:waits"(state, { messageId, waits }) {
    const key = keyOf(messageId);
    const item = itemOf(state, key);
    if (item?.pending) change(state, key, { waits, html: drawn({ ...item, waits }) });
  },
  "local:taken-back"(state, { messageId }) {
    const key = keyOf(messageId);
    if (itemOf(state, key)?.pending) drop(state, key);
  },
});

/** As the server draws it (`web/messages.py`), and below it what can be done while it waits. */
function drawn({ messageId, text, files, waits }) {
  const words = text && h("div", { class: "prose", dir: "auto" }, h("p", { class: "verbatim" }, text));
  const chips = files.length > 0 && h("div", { class: "chips" }, files.map(chip));
  const act = (name, attribute) => h("button", { type: "button", class: "quiet small", [attribute]: messageId }, name);
  const acts = waits && h("div", { class: "after" }, act("Try again", "data-retry"), act("Take back", "data-take-back"));
  return h("div", {}, words || null, chips, acts).innerHTML;
}

function chip({ name, size, type }) {
  const sign = icon(type?.startsWith("image/") ? "picture" : "file");
  return h("span", { class: "chip" }, sign, h("span", { class: "name" }, name || "File"), h("span", { class: "size" }, bytes(size)));
}
