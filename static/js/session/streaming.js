// What is reduced and drawn of words that stream.
import { h } from "../dom.js";
import { change, itemOf, learn, openStream } from "./reducer.js";
import { draws } from "./view.js";

learn({ agent_token_start: token, agent_token: token });

draws({
  /** More text of a stream: only that is touched. */
  streamOn(element, before, item) {
    if (!before.streaming || !item.streaming) return false;
    element.querySelector(".streaming").textContent = item.text;
    return true;
  },

  /** Text as it came, also where it never came to its end. */
  unfinished(element, { streaming, text }) {
    const words = h("p", { class: streaming ? "streaming caret" : "streaming" }, text);
    element.append(h("div", { class: "prose", dir: "auto" }, words));
  },
});

function token(state, entry) {
  const key = `stream:${entry.artifactId}`;
  const known = itemOf(state, key);
  if (known) change(state, key, { text: known.text + entry.text });
  else openStream(state, entry);
}
