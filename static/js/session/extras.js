// What only some conversations have: ratings, other agents, forks. How that is reduced and drawn.
import { h, safe } from "../dom.js";
import { giveStars } from "./rating.js";
import { learn, push, reduce } from "./reducer.js";
import { draws } from "./view.js";

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
    const avatar = safe(h("span"), agent.mark).firstElementChild;
    element.className = "switched";
    element.replaceChildren(avatar, h("span", {}, `From here on with ${agent.name}`));
  },

  rated: giveStars,
});
