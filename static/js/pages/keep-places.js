// A part of a page that htmx brings anew while somebody reads it: folds stay open, boxes stay scrolled, and whoever is in it by
// keyboard stays where they are, which htmx itself sees to only for what has an id.
import { localizeTime } from "../format.js";

const TELLING = ["href", "name", "tabindex"]; // attributes that tell elements of one kind apart
const byId = (id) => document.getElementById(id);

/** `came` is called when the part with this id was brought anew. The focus is kept in whatever htmx exchanges. */
export function keepPlaces(id, came) {
  let restore = [];
  document.addEventListener("htmx:beforeSwap", ({ detail: { target } }) => {
    restore = [target.id === id ? placesIn(target) : () => {}, focusIn(target)];
  });
  document.addEventListener("htmx:afterSwap", ({ detail: { target } }) => {
    for (const time of document.querySelectorAll("time[datetime]:not([title])")) localizeTime(time);
    for (const one of restore.splice(0)) one(); // once: htmx says it of every node that came
    if (target.id === id) came();
  });
}

/** Gives what opens and scrolls all as it was; what was loaded into a fold goes back there. */
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

/** Gives what takes the focus back to where it was; where that is gone, to what is around the part. */
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

/** Gives what finds an element again in what took its place: from the nearest id on, the same among those that are alike. */
function wayTo(element) {
  const near = element.closest("[id]");
  if (near === element) return () => byId(near.id);
  const told = TELLING.filter((name) => element.hasAttribute(name));
  const alike = element.localName + told.map((name) => `[${name}="${CSS.escape(element.getAttribute(name))}"]`).join("");
  const place = [...near.querySelectorAll(alike)].indexOf(element);
  return () => byId(near.id)?.querySelectorAll(alike)[place];
}
