// Finished work in one quiet line, with its steps folded below.
import { h, icon, sign } from "../dom.js";

const CUT_SHORT = { failed: ["failed", "Failed"], rejected: ["canceled", "Not accepted"], canceled: ["canceled", "Stopped"] };

/** `again(taskId)` makes the button that repeats it. */
export function drawWorked(element, item, again) {
  const [look, word] = CUT_SHORT[item.outcome] ?? ["done"];
  const count = item.steps.length;
  const steps = count && `${count} ${count === 1 ? "step" : "steps"}`;
  drawLine(element, item, [
    sign(look),
    h("span", { class: "text figures" }, [word, steps, seconds(item.began, item.ended)].filter(Boolean).join(" · ")),
    item.outcome === "canceled" ? again(item.taskId) : null,
  ]);
}

/** `line`: its text, as elements. */
export function drawLine(element, item, line) {
  if (!item.steps.length) {
    element.replaceChildren(h("div", { class: "work-line" }, line));
    return;
  }
  const fold = icon("fold");
  fold.classList.add("turns");
  const known = element.querySelector("details");
  const details = known ?? h("details", {}, h("summary"), h("ol", { class: "plain steps" }));
  const hadFocus = document.activeElement === details.firstElementChild;
  details.firstElementChild.replaceWith(h("summary", { class: "work-line" }, fold, line));
  if (hadFocus) details.firstElementChild.focus();
  if (!known) element.replaceChildren(details);
  const list = details.lastElementChild;
  const close = () => (details.open = false); // offline there is nothing to show
  details.ontoggle = () => details.open && import("./steps.js").then(({ drawSteps }) => drawSteps(list, item.steps), close);
  details.ontoggle();
}

/** How long something took, or has taken so far. */
export function seconds(from, to) {
  const passed = Math.max(0, (new Date(to) - new Date(from)) / 1000);
  if (passed < 0.1) return "less than 0.1 s";
  if (passed < 10) return `${passed.toFixed(1)} s`;
  if (passed < 60) return `${Math.floor(passed)} s`;
  const minutes = Math.floor(passed / 60);
  return minutes < 60 ? `${minutes} min ${Math.floor(passed % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
