// Earlier tasks that the next message is about: chips above where one writes, sent along with it.
import { h, icon } from "../dom.js";
import { keepWith } from "../drafts.js";

const LONGEST = 60; // characters of what a chip says

/** The next message refers to the task of `item`. */
export function refer(page, item) {
  const { composer } = page;
  const name = nameOf(page, item);
  add(composer, item.taskId, name);
  page.announce(`Your next message refers to: ${name}`);
  composer.words.focus();
}

/** Those of a draft that comes back: [task, name] each. */
export function recall(composer, references) {
  for (const [task, name] of references) add(composer, task, name);
}

function add(composer, task, name) {
  const list = chips(composer);
  if (!list.querySelector(`[data-reference="${task}"]`)) list.append(chip(composer, task, name));
  write(composer);
}

function chips(composer) {
  const notes = document.getElementById("composer-notes");
  const known = notes.querySelector(".refers");
  if (known) return known;
  const list = h("ul", { class: "plain refers", "aria-label": "What your next message refers to" });
  notes.append(list);
  composer.form.addEventListener("cleared", () => {
    list.replaceChildren();
    write(composer);
  });
  return list;
}

function chip(composer, task, name) {
  const away = () => {
    element.remove();
    write(composer);
    composer.words.focus();
  };
  const remove = h("button", { type: "button", class: "quiet round", "aria-label": `Do not refer to ${name}`, onclick: away }, icon("close"));
  const element = h("li", { class: "chip", "data-reference": task }, icon("refer"), h("span", { class: "name", dir: "auto" }, name), remove);
  return element;
}

function write(composer) {
  const chosen = [...document.querySelectorAll("#composer-notes [data-reference]")];
  composer.also = chosen.map(({ dataset }) => ["reference", dataset.reference]);
  keepWith(composer, { references: chosen.map((one) => [one.dataset.reference, one.textContent]) });
}

/** How the message begins, as one reads it. */
function nameOf(page, item) {
  const text = page.element(item)?.querySelector(".prose")?.innerText ?? item.text;
  const line = text.trim().replace(/\s+/g, " ");
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line || "An earlier task";
}
