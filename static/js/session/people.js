// Who else has a shared session open.
import { h, safe } from "../dom.js";

export function showPeople(people) {
  const names = people.map(({ name }) => name);
  const here = names.length ? `${names.join(", ")} ${names.length > 1 ? "are" : "is"} here` : "";
  const marks = people.map(({ mark }) => safe(h("span", { "aria-hidden": "true" }), mark).firstElementChild);
  const element = document.getElementById("people");
  element.title = here;
  element.replaceChildren(...marks, h("span", { class: "word" }, here));
}
