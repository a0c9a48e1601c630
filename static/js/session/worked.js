// How work is shown that is over.
import { h, sign } from "../dom.js";
import { drawLine, seconds } from "./line.js";

const CUT_SHORT = { failed: ["failed", "Failed"], rejected: ["failed", "Declined"], canceled: ["canceled", "Stopped"] };

/** `again(taskId)` makes the button to have it done once more. */
export function drawWorked(element, item, again) {
  drawLine(element, item, done(item, again));
}

function done(item, again) {
  const [look, word] = CUT_SHORT[item.outcome] ?? ["done"];
  const count = item.steps.length;
  const steps = count && `${count} ${count === 1 ? "step" : "steps"}`;
  return [
    sign(look),
    h("span", { class: "text figures" }, [word, steps, seconds(item.began, item.ended)].filter(Boolean).join(" · ")),
    item.outcome === "canceled" ? again(item.taskId) : null,
  ];
}
