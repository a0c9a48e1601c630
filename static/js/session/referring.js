// Earlier tasks that the next message is about: chips above where one writes, sent along with it.
import { h, icon } from "../dom.js";

const LONGEST = 60; // characters of what a chip says

/** The next message refers to the task of `item`. */
export function refer(page, item) {
  const list = chips(page);
  if (!list.querySelector(`[data-reference="${item.taskId}"]`)) list.append(chip(page, item));
  write(page);
  page.announce(`Your next message refers to: ${nameOf(page, item)}`);
  page.composer.words.focus();
}

function chips(page) {
  const notes = document.getElementById("composer-notes");
  const known = notes.querySelector(".refers");
  if (known) return known;
  const list = h("ul", { class: "plain refers", "aria-label": "What your next message refers to" });
  notes.append(list);
  page.composer.form.addEventListener("cleared", () => list.replaceChildren());
  return list;
}

function chip(page, item) {
  const name = nameOf(page, item);
  const away = () => {
    element.remove();
    write(page);
    page.composer.words.focus();
  };
  const remove = h("button", { type: "button", class: "quiet round", "aria-label": `Do not refer to ${name}`, onclick: away }, icon("close"));
  const element = h("li", { class: "chip", "data-reference": item.taskId }, icon("refer"), h("span", { class: "name", dir: "auto" }, name), remove);
  return element;
}

function write(page) {
  const named = [...document.querySelectorAll("#composer-notes [data-reference]")].map((one) => one.dataset.reference);
  page.composer.also = named.map((task) => ["reference", task]);
}

/** How the message begins, as one reads it. */
function nameOf(page, item) {
  const text = page.element(item)?.querySelector(".prose")?.innerText ?? item.text;
  const line = text.trim().replace(/\s+/g, " ");
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line || "An earlier task";
}
