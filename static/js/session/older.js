// Earlier messages, read from the server or from the browser's cache when the reader scrolls there.
import { keptOf } from "./cache.js";
import { addEarlier, apply } from "./state.js";

const FAR = 300; // turns at a time, when jumping to a message far up
const REST = 5000; // ms until scrolling retries a failed request

const LOST = "Earlier messages could not be loaded. Check your connection, then try again.";
const isSaid = ({ composer: { error } }) => !error.hidden && error.textContent === LOST;

let reading = null; // one request at a time
let failed = 0; // after a failure, unless somebody presses the button

document.getElementById("earlier").addEventListener("click", () => (failed = 0), { capture: true });

/** Add earlier turns, as many as there is room for. */
export async function showOlder(page) {
  if (reading || page.first <= 1 || Date.now() - failed < REST) return;
  await orComplain(page, async () => {
    await readOn(page);
    page.drawSoon();
    page.end.look(); // a reader who went down stays there
  });
}

/** Show the message that the page's address names. */
export function showLinked(page, index) {
  return orComplain(page, () => showMessage(page, index));
}

/** Show the message that was at the top when the reader left, where it was. */
export function showKept(page, { index, top }) {
  return orComplain(page, async () => {
    const element = await drawn(page, index);
    if (element) page.end.scroller.scrollTop += page.end.topOf(element) - top;
    page.end.look();
  });
}

async function orComplain(page, act) {
  try {
    await act();
    if (isSaid(page)) page.complain("");
  } catch {
    if (!isSaid(page)) page.complain(LOST);
    failed = Date.now();
  }
}

async function readOn(page, turns = "") {
  reading ??= read(page, turns).finally(() => (reading = null));
  await reading;
}

async function read(page, turns) {
  const kept = keptOf(page);
  await page.end.lengthen();
  const before = page.first;
  page.isReading = true;
  try {
    const known = await kept.before(before);
    const older = known ?? (await fromServer(page, before, turns));
    prepend(page, older);
    if (!known) kept.keep(older.first, before - 1, older.patch, page.state.open.length);
  } finally {
    page.isReading = false;
    page.patches = [];
  }
}

/** Earlier turns, {first, patch}. What changed since they were asked for is applied to them too. */
function prepend(page, { first, patch }) {
  const { items } = page.state;
  const { length } = items;
  page.first = first;
  addEarlier(page.state, patch);
  for (const later of page.patches) apply(page.state, later);
  page.end.window.shift(items.length - length);
}

async function fromServer(page, before, turns) {
  const query = new URLSearchParams({ before, upto: page.state.last, ...(turns && { turns }) });
  const answer = await fetch(`${page.beginning.earlier}?${query}`);
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

/** The element of the message with an index, however far up; undefined if there is none. */
async function drawn(page, index) {
  while (page.first > index) await readOn(page, FAR);
  const place = page.state.items.findIndex((item) => item.index >= index);
  if (place < 0) return undefined;
  page.end.follows = false;
  page.end.window?.around(place);
  page.draw();
  return page.element(page.state.items[place]);
}

/** Show the message that an address names (`#m-<index>`), and focus it. */
async function showMessage(page, index) {
  const element = await drawn(page, index);
  if (!element) return;
  element.tabIndex = -1;
  element.scrollIntoView({ block: "center" });
  element.focus({ preventScroll: true });
  element.classList.add("is-found");
}
