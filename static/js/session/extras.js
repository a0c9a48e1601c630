// What only some conversations have: files that are sent along, long texts, values of a form, references, ratings, other
// agents, forks. How that is reduced and drawn.
import { bytes, h, icon } from "../dom.js";
import { giveStars } from "./rating.js";
import { learn, push, reduce } from "./reducer.js";
import { agentMark, draws } from "./view.js";

const CLIPPED = 6000; // characters of one's own message beyond which it is folded

learn({
  agent_switched(state, { agent, at, index }) {
    state.agent = agent;
    push(state, { kind: "switch", key: `switch:${index}`, agent, at, index });
  },
  feedback(state, { taskId, rating }) {
    state.ratings[taskId] = rating;
  },
  /** In a fork ends what had not ended where it goes on from. */
  fork(state, { left, leftAt }) {
    for (const taskId of left) reduce(state, { type: "agent_status", taskId, at: leftAt, state: "canceled" });
  },
});

draws({
  switched(element, { agent }) {
    element.className = "switched";
    element.replaceChildren(agentMark(agent), h("span", {}, `From here on with ${agent.name}`));
  },

  rated: giveStars,

  /** The values of a form with several fields. */
  values(values) {
    return [h("dl", { class: "values" }, values.flatMap(({ name, value }) => [h("dt", {}, name), h("dd", {}, value)]))];
  },

  files(element, { parts }) {
    const files = parts.filter((part) => part.kind === "file").map((part) => fileChip(part));
    if (files.length) element.append(h("div", { class: "chips" }, files));
  },

  /** What a message of one's own has below its words. */
  own(element, { refers, text, waits, messageId }) {
    if (refers) element.append(h("div", { class: "chips" }, refers.map(reference)));
    if (text.length > CLIPPED) clip(element);
    const act = (words, attribute) => h("button", { type: "button", class: "quiet small", [attribute]: messageId }, words);
    if (waits) element.append(h("div", { class: "after" }, act("Try again", "data-retry"), act("Take back", "data-take-back")));
  },
});

function fileChip(part) {
  const inside = [
    icon(part.mediaType?.startsWith("image/") ? "picture" : "file"),
    h("span", { class: "name" }, part.name || "File"),
    h("span", { class: "size" }, bytes(part.size)),
  ];
  if (!part.href) return h("span", { class: "chip" }, inside);
  const elsewhere = part.elsewhere ? { target: "_blank", rel: "noopener noreferrer nofollow" } : { download: true };
  return h("a", { class: "chip", href: part.href, ...elsewhere }, inside);
}

/** An earlier task that a message is about. */
function reference({ id, text }) {
  const words = h("span", { class: "name", dir: "auto" }, text || "An earlier task");
  return h("a", { class: "chip", href: `/tasks/${id}` }, icon("refer"), words);
}

function clip(element) {
  const more = h("button", { type: "button", class: "quiet small" }, "Show all");
  element.classList.add("clipped");
  more.addEventListener("click", () => {
    element.classList.remove("clipped");
    more.remove();
  });
  element.append(more);
}
