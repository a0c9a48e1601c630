// How work is shown while it goes on.
import { h, sign } from "../dom.js";
import { drawLine, seconds } from "./worked.js";

const LATER = 10_000; // ms until the picture of it in time, which stands beside the conversation, is drawn again

setInterval(() => {
  for (const element of document.querySelectorAll(".elapsed")) element.textContent = elapsed(element.dataset.since);
}, 1000);

setInterval(() => {
  const isLive = document.getElementById("line-state")?.matches(":empty"); // and no replay
  if (!isLive || document.hidden || !document.querySelector(".elapsed")) return;
  document.getElementById("panel-timeline").dispatchEvent(new Event("turned"));
}, LATER);

export function drawWork(element, item) {
  drawLine(element, item, running(item));
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
    making && !total ? h("span", { class: "far figures" }, making.size) : null,
    h("span", { class: "elapsed figures", "data-since": item.began }, elapsed(item.began)),
  ];
}

/** How long it has been going on; nothing in the first seconds, which need no comment. */
function elapsed(since) {
  return Date.now() - new Date(since) > 3000 ? seconds(since, Date.now()) : "";
}
