// What was done in a piece of work, step by step, where somebody unfolds it.
import { h } from "../dom.js";

const drawn = new WeakMap(); // the elements of steps: each is drawn once

export function drawSteps(list, steps) {
  steps.forEach((step, place) => {
    if (!drawn.has(step)) drawn.set(step, stepOf(step));
    if (list.children[place] !== drawn.get(step)) list.insertBefore(drawn.get(step), list.children[place] ?? null);
  });
  while (list.children.length > steps.length) list.lastElementChild.remove();
}

function stepOf(step) {
  if (step.kind !== "tool") return h("li", { class: step.kind }, step.text);
  const said = [step.value, step.result].filter((value) => value && value !== "{}");
  return h(
    "li",
    {},
    h("span", { class: "tool" }, step.name),
    step.isError ? h("span", { class: "error" }, " failed") : null,
    said.map((value) => h("pre", {}, value)),
  );
}
