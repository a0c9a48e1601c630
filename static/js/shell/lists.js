// The lists of sessions on a page: when they are fetched again, and how. A row that says the same stays the same element.
import { localizeTime } from "../format.js";

const SOON = 120; // ms in which more of the same may come
const PAUSE = 1000; // ms between two readings, and more where nobody looks
const PAUSE_HIDDEN = 5000;
const TOLD = ["completed", "failed", "rejected", "input-required", "auth-required"]; // also of what nobody looks at

let due = 0;
let fetchedAt = 0;
let isReading = false;
let hasMoved = false;
let isInTitle = Number(document.querySelector(".sidebar .recent").dataset.waiting) > 0; // as the page began

/** What agents do is shown where it is; what people do may move a row. */
export function hear(events) {
  renewSoon(events.some(({ type }) => !type.startsWith("agent_")));
  const news = events.filter(({ type, payload }) => type === "agent_status" && TOLD.includes(payload.state));
  if (news.length) import("./notifications.js").then(({ notifyOf }) => notifyOf(news), () => {}); // without a line nothing is told
}

/** `isMoved`: rows may leave their places. `atOnce`: what was changed in this tab shows as soon as it can. */
export function renewSoon(isMoved, atOnce = false) {
  hasMoved ||= isMoved;
  if (atOnce) {
    clearTimeout(due);
    due = fetchedAt = 0;
  }
  const pause = document.hidden ? PAUSE_HIDDEN : PAUSE;
  due ||= setTimeout(renew, Math.max(SOON, fetchedAt + pause - Date.now()));
}

async function renew() {
  due = 0;
  if (isReading) return renewSoon(false);
  const isMoved = hasMoved;
  [isReading, hasMoved, fetchedAt] = [true, false, Date.now()];
  try {
    for (const list of lists()) await redraw(list, { isMoved });
    count();
  } finally {
    isReading = false;
  }
}

/** How many wait, wherever that is said. */
function count() {
  const waiting = Number(document.querySelector(".sidebar .recent").dataset.waiting);
  for (const count of document.querySelectorAll("[data-waiting-count]")) {
    count.hidden = !waiting;
    count.firstElementChild.textContent = waiting;
  }
  if (waiting || isInTitle) document.dispatchEvent(new CustomEvent("waiting-counted", { detail: waiting }));
  isInTitle ||= waiting > 0;
}

const lists = () => [...document.querySelectorAll("[data-list]:not(button)")];

const REST = 100; // ms until it is looked at again whether a list is in somebody's hand

/** Does somebody type a name in it, press something there just now, or choose what to do with one of its rows? */
function isInHand(list) {
  return list.querySelector("form") || list.matches(":active") || document.querySelector("#row-menu:popover-open");
}

/** The button below a list. */
export async function showMore(button) {
  const list = button.closest(".recent");
  const known = list.querySelectorAll("[data-key]").length;
  button.disabled = true;
  if (await redraw(list, { address: button.dataset.list })) list.querySelectorAll("[data-session]")[known]?.focus();
  button.disabled = false;
}

/**
 * Whether it could be read. `address`: another than its own, which it has from then on. Without `isMoved` rows keep their
 * order, whatever the newest is.
 */
async function redraw(list, { address = "", isMoved = true }) {
  let [from, fresh] = [];
  do {
    while (isInHand(list)) await new Promise((done) => setTimeout(done, REST));
    from = address || list.dataset.list;
    fresh = await fetchList(from);
    if (!fresh) return false;
  } while (isInHand(list) || (!address && from !== list.dataset.list)); // by now; then what was read is old
  finish(fresh);
  for (const [name, value] of Object.entries(fresh.dataset)) list.dataset[name] = value;
  if (fresh.innerHTML !== list.innerHTML) exchange(list, fresh, isMoved);
  return true;
}

/** The list as it is now; null where there is no line, or nobody is signed in: it is read again when that is back. */
async function fetchList(address) {
  const answer = await fetch(address).catch(() => null);
  if (!answer?.ok || answer.redirected) return null;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").body.firstElementChild;
  return fresh?.dataset.list ? fresh : null;
}

/** What the server cannot know: where the reader is, how they say times, what they just deleted. */
function finish(list) {
  for (const time of list.querySelectorAll("time[datetime]")) localizeTime(time);
  for (const link of list.querySelectorAll(".sidebar-link[data-session]")) {
    if (link.pathname === location.pathname) link.setAttribute("aria-current", "page");
  }
  const { user } = document.querySelector(".sidebar").dataset;
  for (const id of Object.keys(JSON.parse(localStorage.getItem(`parley.deleting.${user}`) ?? "{}"))) {
    const row = list.querySelector(`[data-key="${id}"]`);
    const group = row?.parentElement;
    row?.remove();
    if (group?.children.length) continue;
    group?.previousElementSibling.remove();
    group?.remove();
  }
}

function exchange(list, fresh, isMoved) {
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  const known = new Map([...list.querySelectorAll("[data-key]")].map((row) => [row.dataset.key, row]));
  if (!isMoved) for (const group of fresh.querySelectorAll("ul")) inPlace(group, [...known.keys()]);
  for (const row of fresh.querySelectorAll("[data-key]")) {
    const old = known.get(row.dataset.key);
    if (old?.outerHTML === row.outerHTML) row.replaceWith(old);
  }
  list.replaceChildren(...fresh.childNodes);
  if (!focused) return;
  const place = focused.isConnected ? focused : document.getElementById(focused.id);
  (place ?? list.querySelector("a"))?.focus({ preventScroll: true });
}

/** The rows of a group in the order that they had. */
function inPlace(group, order) {
  const place = (row) => order.indexOf(row.dataset.key);
  group.append(...[...group.children].sort((one, other) => place(one) - place(other)));
}
