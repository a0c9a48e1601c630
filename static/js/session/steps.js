// The steps of a piece of work, if somebody unfolds it.
import { h } from "../dom.js";
import { setChildren } from "../place.js";

const drawn = new WeakMap(); // the elements of steps, each drawn once

export function drawSteps(list, steps) {
  for (const step of steps) if (!drawn.has(step)) drawn.set(step, stepOf(step));
  setChildren(list, steps.map((step) => drawn.get(step)));
}

function stepOf(step) {
  if (step.what !== "tool") return h("li", { class: step.what }, step.text, step.detail && h("p", { class: "muted" }, step.detail));
  const said = [step.value, step.result].filter((value) => value && value !== "{}");
  return h(
    "li",
    {},
    h("span", { class: "tool" }, step.name),
    step.isError ? h("span", { class: "error" }, " failed") : null,
    said.map((value) => h("pre", {}, value)),
  );
}
