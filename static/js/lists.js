// When the lists of sessions on a page are drawn anew: soon after a word of it, and not too often.

const SOON = 120; // ms in which more of the same may come
const PAUSE = 1000; // ms between two readings, and more where nobody looks
const PAUSE_HIDDEN = 5000;
const TOLD = ["completed", "failed", "rejected", "input-required", "auth-required"]; // also of what nobody looks at

let due = 0;
let read = 0;
let isReading = false;
let hasMoved = false;
let isInTitle = Number(document.querySelector(".sidebar .recent").dataset.waiting) > 0; // as the page began

/** What agents do is shown where it is; what people do may move a row. */
export function hear(events) {
  renewSoon(events.some(({ type }) => !type.startsWith("agent_")));
  const news = events.filter(({ type, payload }) => type === "agent_status" && TOLD.includes(payload.state));
  if (news.length) import("./notifying.js").then(({ tell }) => tell(news), () => {}); // without a line nothing is told
}

/** `isMoved`: rows may leave their places. `atOnce`: what was changed in this tab shows as soon as it can. */
export function renewSoon(isMoved, atOnce = false) {
  hasMoved ||= isMoved;
  if (atOnce) {
    clearTimeout(due);
    due = read = 0;
  }
  const pause = document.hidden ? PAUSE_HIDDEN : PAUSE;
  due ||= setTimeout(renew, Math.max(SOON, read + pause - Date.now()));
}

async function renew() {
  due = 0;
  if (isReading) return renewSoon(false);
  const isMoved = hasMoved;
  [isReading, hasMoved, read] = [true, false, Date.now()];
  try {
    const { redrawAll } = await import("./redraw.js").catch(() => ({})); // without a line nothing could be read, either
    await redrawAll?.(isMoved);
    count();
  } finally {
    isReading = false;
  }
}

/** How many wait, wherever that is said. */
export function count() {
  const waiting = Number(document.querySelector(".sidebar .recent").dataset.waiting);
  for (const count of document.querySelectorAll("[data-waiting-count]")) {
    count.hidden = !waiting;
    count.firstElementChild.textContent = waiting;
  }
  if (waiting || isInTitle) import("./waiting.js").then(({ show }) => show(waiting), () => {});
  isInTitle ||= waiting > 0;
}
