// What the server draws beside a conversation (its newest task in time, what waits to be sent) is drawn anew when something
// begins, waits or ends, when somebody comes back, and the picture also now and then while something is worked at.
import { busyTask } from "./standing.js";

const APART = 1500; // ms between two pictures
const LATER = 10_000; // ms until the picture of what goes on is drawn again

export function start(page) {
  const renew = () => import("./renewing.js").then(({ renewQueue }) => renewQueue(), () => {});
  const timeline = document.getElementById("panel-timeline");
  let isGone = false;
  let due = null;
  const drawTimeline = () => {
    due = null;
    if (!isGone) htmx.trigger(timeline, "turned");
  };
  const draw = () => {
    due ??= setTimeout(drawTimeline, APART);
    if (!isGone && document.querySelector("#queued li")) renew();
  };
  const isTurn = ({ type, progress }) => type === "user_message" || (type === "agent_status" && !progress);
  page.on("entries", (fresh) => fresh.some(isTurn) && draw());
  page.on("line", (name) => {
    isGone ||= name === "gone";
    if (name === "live") draw();
  });
  document.addEventListener("visibilitychange", () => document.hidden || draw());
  setInterval(() => document.hidden || !busyTask(page.state) || drawTimeline(), LATER);
  drawTimeline();
  if (page.isKept || document.querySelector("#queued li")) renew();
}
