// How work is shown while it goes on: one quiet line, and what was done so far folded below it.
import { bytes, h, sign } from "../dom.js";
import { drawLine, drawWorked, seconds } from "./worked.js";

setInterval(() => {
  for (const element of document.querySelectorAll(".elapsed")) element.textContent = elapsed(element.dataset.since);
}, 1000);

/** Also what is over by now. `again(taskId)` makes the button to have it done once more. */
export function drawWork(element, item, again) {
  if (item.ended) drawWorked(element, item, again);
  else drawLine(element, item, running(item));
}

function running(item) {
  const { progress, making, started, attempt } = item;
  const { done = null, total = null } = progress ?? {};
  const begun = attempt > 1 ? `Started again (attempt ${attempt})` : "Working…";
  const text = started ? (progress?.text ?? (making ? `Writing ${making.name}…` : begun)) : "Waiting to start…";
  return [
    sign("working"),
    h("span", { class: "text" }, text),
    total ? h("progress", { max: total, value: done ?? 0, "aria-label": "Progress" }) : null,
    total ? h("span", { class: "far figures" }, `${done ?? 0} of ${total}`) : null,
    making && !total ? h("span", { class: "far figures" }, bytes(making.size)) : null,
    h("span", { class: "elapsed figures", "data-since": item.began }, elapsed(item.began)),
  ];
}

/** How long it has been going on; nothing in the first seconds, which need no comment. */
function elapsed(since) {
  return Date.now() - new Date(since) > 3000 ? seconds(since, Date.now()) : "";
}
