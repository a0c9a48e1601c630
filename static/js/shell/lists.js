// The lists of sessions on a page: when and how they are fetched again. An unchanged row keeps its element.
import { localizeTime } from "../format.js";

const SOON = 120; // ms to collect further events
const PAUSE = 1000; // ms between two reads, and more in the background
const PAUSE_HIDDEN = 5000;
const ALL = "?branches=all"; // a deletion of all branches
const TOLD = ["completed", "failed", "rejected", "input-required", "auth-required"]; // also in the background

let due = 0;
let fetchedAt = 0;
let isReading = false;
let hasMoved = false;
let isInTitle = Number(document.querySelector(".sidebar .recent").dataset.waiting) > 0; // as the page began

/** Agents' work is shown in place; people's actions may move a row. */
export function hear(events) {
  renewSoon(events.some(({ type }) => !type.startsWith("agent_")));
  const news = events.filter(({ type, payload }) => type === "agent_status" && TOLD.includes(payload.state));
  if (news.length) import("./notifications.js").then(({ notifyOf }) => notifyOf(news), () => {}); // offline there are no events
}

/** `isMoved`: rows may move. `atOnce`: a change in this tab shows immediately. */
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

/** Update the count of waiting questions everywhere. */
function count() {
  const waiting = Number(document.querySelector(".sidebar .recent").dataset.waiting);
  for (const count of document.querySelectorAll("[data-waiting-count]")) {
    count.hidden = !waiting;
    count.firstElementChild.textContent = waiting;
  }
  if (waiting || isInTitle) document.dispatchEvent(new CustomEvent("waiting-counted", { detail: waiting }));
  isInTitle ||= waiting > 0;
}

/** Whether a part of the sidebar is folded stays as the reader left it. */
function fold(list) {
  for (const part of list.querySelectorAll("details[data-keep]")) part.open = !localStorage.getItem(`parley.folded.${part.dataset.keep}`);
}

document.addEventListener("toggle", ({ target }) => {
  if (!target.isConnected || !target.matches(".recent details[data-keep]")) return;
  const name = `parley.folded.${target.dataset.keep}`;
  if (target.open) localStorage.removeItem(name);
  else localStorage.setItem(name, "yes");
}, true);
fold(document.querySelector(".sidebar .recent"));

const lists = () => [...document.querySelectorAll("[data-list]:not(button)")];

const REST = 100; // ms until the next check whether somebody uses a list

/** Does somebody edit a name in the list, press something, or use the menu of a row? */
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
 * Returns whether it could be read. `address` replaces its own, also for later. Without `isMoved` rows keep their order,
 * whichever is newest.
 */
async function redraw(list, { address = "", isMoved = true }) {
  let [from, fresh] = [];
  do {
    while (isInHand(list)) await new Promise((done) => setTimeout(done, REST));
    from = address || list.dataset.list;
    fresh = await fetchList(from);
    if (!fresh) return false;
  } while (isInHand(list) || (!address && from !== list.dataset.list)); // newer by now; then the answer is outdated
  finish(fresh);
  for (const [name, value] of Object.entries(fresh.dataset)) list.dataset[name] = value;
  if (fresh.innerHTML !== list.innerHTML) exchange(list, fresh, isMoved);
  return true;
}

/** The current list; null if offline or signed out: it is read again afterwards. */
async function fetchList(address) {
  const answer = await fetch(address).catch(() => null);
  if (!answer?.ok || answer.redirected) return null;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").body.firstElementChild;
  return fresh?.dataset.list ? fresh : null;
}

/** What the server does not know: where the reader is, their time format, what they just deleted. */
function finish(list) {
  fold(list);
  for (const time of list.querySelectorAll("time[datetime]")) localizeTime(time);
  const { family } = document.getElementById("session")?.dataset ?? {};
  for (const link of list.querySelectorAll(".sidebar-link[data-session]")) {
    if (link.pathname === location.pathname || link.closest("li").dataset.family === family) link.setAttribute("aria-current", "page");
  }
  const { user } = document.querySelector(".sidebar").dataset;
  for (const [id, { which }] of Object.entries(JSON.parse(localStorage.getItem(`parley.deleting.${user}`) ?? "{}"))) {
    const row = which === ALL && list.querySelector(`[data-key="${id}"]`);
    if (!row) continue;
    const group = row.parentElement;
    row.remove();
    if (group.children.length) continue;
    if (!group.matches(".of-project")) group.previousElementSibling.remove(); // its heading
    group.remove();
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

/** The rows of a group in their previous order. */
function inPlace(group, order) {
  const place = (row) => order.indexOf(row.dataset.key);
  group.append(...[...group.children].sort((one, other) => place(one) - place(other)));
}
