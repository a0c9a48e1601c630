// The files of a session, as the server draws them, updated when there are more. Unfolded parts, the focus and unchanged lines stay
// the same elements, so that a click that has begun still works; also when a file in progress is delivered.
import { h, safe } from "../dom.js";
import { setChildren } from "../place.js";

const $ = (id) => document.getElementById(id);
const newest = new WeakMap(); // the number of requests for each list

/** The current content of a list (`data-address`), in an element; null if it cannot be read, or was requested again. */
export async function fetchDrawn(list) {
  const asked = (newest.get(list) ?? 0) + 1;
  newest.set(list, asked);
  const answer = await fetch(list.dataset.address).catch(() => null); // it is read again when the connection is back
  const html = answer?.ok && !answer.redirected ? await answer.text().catch(() => null) : null;
  return html === null || asked !== newest.get(list) ? null : safe(h("div"), html);
}

/** Returns whether they could be read. The panel gets the event "renewed". */
export async function renewFiles() {
  const list = $("artifacts");
  const fresh = await fetchDrawn(list);
  if (fresh) replace(list, [...fresh.children]);
  count(); // includes the list of a page that was kept
  if (fresh) list.dispatchEvent(new Event("renewed", { bubbles: true }));
  return Boolean(fresh);
}

/** Update all counts. */
export function count() {
  const ready = $("artifacts").querySelectorAll(".artifact").length;
  const isEmpty = !ready && !$("making").children.length;
  $("file-count").textContent = ready;
  $("panel-count").textContent = ready || "";
  $("panel-zip").hidden = ready < 2;
  $("panel-nothing").hidden = !isEmpty;
  $("to-panel").classList.toggle("has-none", isEmpty);
}

function replace(list, fresh) {
  const lists = list.parentElement; // includes files in progress
  const focused = lists.contains(document.activeElement) ? document.activeElement : null;
  const fold = focused?.matches("summary") && focused.parentElement.dataset.name;
  const same = new Map(Array.from(list.children, (item) => [keysOf(item).join(), item]));
  const lines = new Map(linesOf(lists).map((line) => [line.dataset.key, line]));
  const unfolded = new Set(Array.from(list.querySelectorAll("details[open]"), ({ dataset }) => dataset.name));
  const items = fresh.map((item) => same.get(keysOf(item).join()) ?? grown(item, lines, unfolded));
  setChildren(list, items);
  const folds = fold ? [...list.querySelectorAll("details")] : [];
  const back = folds.find(({ dataset }) => dataset.name === fold)?.firstElementChild ?? focused;
  if (!back?.isConnected || back === document.activeElement) return;
  if (!fold && back.closest("details")) back.closest("details").open = true; // below a newer version
  back.focus({ preventScroll: true });
}

/** The versions of a name. Existing lines keep their elements and get the new text. */
function grown(item, lines, unfolded) {
  for (const line of linesOf(item)) {
    const known = lines.get(line.dataset.key);
    if (!known) continue;
    known.replaceChildren(...line.childNodes);
    Object.assign(known.dataset, line.dataset);
    if (known.closest("#making")) line.replaceWith(known);
    else line.parentElement.replaceWith(known.parentElement);
  }
  for (const older of item.querySelectorAll("details")) older.open = unfolded.has(older.dataset.name);
  return item;
}

function linesOf(element) {
  return [...element.querySelectorAll(".artifact-open")];
}

function keysOf(item) {
  return linesOf(item).map(({ dataset }) => dataset.key);
}
