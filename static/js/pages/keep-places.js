// Keeps the reader's place when htmx replaces a part of a page: folds stay open, boxes stay scrolled, and the keyboard focus stays.
// htmx itself does this only for elements with an id.
import { localizeTime } from "../format.js";

const TELLING = ["href", "name", "tabindex"]; // attributes that distinguish elements of one kind
const byId = (id) => document.getElementById(id);

/** `came` is called when the part with this id was replaced. The focus is kept in everything that htmx replaces. */
export function keepPlaces(id, came) {
  let restore = [];
  document.addEventListener("htmx:beforeSwap", ({ detail: { target } }) => {
    restore = [target.id === id ? placesIn(target) : () => {}, focusIn(target)];
  });
  document.addEventListener("htmx:afterSwap", ({ detail: { target } }) => {
    for (const time of document.querySelectorAll("time[datetime]:not([title])")) localizeTime(time);
    for (const one of restore.splice(0)) one(); // once: htmx reports every new node
    if (target.id === id) came();
  });
}

/** Returns a function that restores folds and scrolling, and what was loaded into a fold. */
function placesIn(part) {
  const folds = [...part.querySelectorAll("details[open]")].map((fold) => [fold.id, fold.querySelector(":scope > .look")]);
  const boxes = [...part.querySelectorAll("[tabindex='0']")].map((box) => [wayTo(box), box.scrollLeft, box.scrollTop]);
  return () => {
    for (const [id, look] of folds) {
      if (look) byId(id)?.querySelector(".look")?.replaceWith(look);
      byId(id)?.setAttribute("open", "");
    }
    for (const [find, left, top] of boxes) find()?.scrollTo(left, top);
  };
}

/** Returns a function that restores the focus, or else focuses the area around the part. */
function focusIn(part) {
  const focused = document.activeElement;
  if (!part.contains(focused)) return () => {};
  const find = wayTo(focused);
  const around = part.parentElement.closest("[tabindex]");
  return () => {
    if (document.activeElement !== document.body) return;
    const place = focused.isConnected ? focused : (find() ?? around);
    place.focus({ preventScroll: true });
  };
}

/**
 * Returns a function that finds an element again in its replacement: from the nearest id, by its position among similar elements.
 */
function wayTo(element) {
  const near = element.closest("[id]");
  if (near === element) return () => byId(near.id);
  const told = TELLING.filter((name) => element.hasAttribute(name));
  const alike = element.localName + told.map((name) => `[${name}="${CSS.escape(element.getAttribute(name))}"]`).join("");
  const place = [...near.querySelectorAll(alike)].indexOf(element);
  return () => byId(near.id)?.querySelectorAll(alike)[place];
}
