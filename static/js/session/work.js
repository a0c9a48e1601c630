// Running work.
import { h, sign } from "../dom.js";
import { drawLine, seconds } from "./worked.js";

const LATER = 10_000; // ms until its timeline beside the conversation is redrawn

setInterval(() => {
  for (const element of document.querySelectorAll(".elapsed")) element.textContent = elapsed(element.dataset.since);
}, 1000);

setInterval(() => {
  const isLive = document.getElementById("line-state")?.matches(":empty"); // and not a replay
  if (!isLive || document.hidden || !document.querySelector(".elapsed")) return;
  document.getElementById("panel-timeline").dispatchEvent(new Event("turned"));
}, LATER);

export function drawWork(element, item) {
  drawLine(element, item, running(item));
}

function running(item) {
  const { progress, making, started, attempt, stops } = item;
  const { done = null, total = null } = progress ?? {};
  const begun = stops ? "Stopping after this step…" : attempt > 1 ? `Started again (attempt ${attempt})` : "Working…";
  const text = started ? ((stops ? null : progress?.text) ?? (making && !stops ? `Writing ${making.name}…` : begun)) : "Waiting to start…";
  return [
    sign("working"),
    h("span", { class: "text" }, text),
    total ? h("progress", { max: total, value: done ?? 0, "aria-label": "Progress" }) : null,
    total ? h("span", { class: "far figures" }, `${done ?? 0} of ${total}`) : null,
    making?.size && !total ? h("span", { class: "far figures" }, making.size) : null,
    h("span", { class: "elapsed figures", "data-since": item.began }, elapsed(item.began)),
  ];
}

/** How long the work has taken; nothing in the first seconds. */
function elapsed(since) {
  return Date.now() - new Date(since) > 3000 ? seconds(since, Date.now()) : "";
}
