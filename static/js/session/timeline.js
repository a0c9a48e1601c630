// Beside a session: its newest task in time, drawn anew when one begins, waits or ends, and now and then while one is worked at.
import { busyTask } from "./standing.js";

const APART = 1500; // ms between two pictures
const LATER = 10_000; // ms until what goes on is drawn again

export function start(page) {
  let due = null;
  let later;
  let isGone = false;
  const draw = () => {
    due = null;
    clearTimeout(later);
    if (isGone) return;
    htmx.ajax("GET", `/sessions/${page.id}/timeline`, "#panel-timeline").catch(() => {}); // without a line it stays as it was
    if (busyTask(page.state)) later = setTimeout(soon, LATER);
  };
  const soon = () => {
    if (!document.hidden) due ??= setTimeout(draw, APART);
  };
  page.on("entries", (fresh) => {
    const isWorthIt = fresh.some(({ type, progress }) => type === "user_message" || (type === "agent_status" && !progress));
    if (isWorthIt) due ??= setTimeout(draw, APART);
  });
  page.on("line", (name) => {
    isGone ||= name === "gone";
    if (name === "live") soon();
  });
  document.addEventListener("visibilitychange", soon);
  draw();
}
