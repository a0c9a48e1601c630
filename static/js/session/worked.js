// How work is shown that is over: one quiet line, what was done folded below it, which is loaded when somebody looks.
import { h, icon, sign } from "../dom.js";

const OUTCOMES = {
  "input-required": ["waiting", "Waiting for you"],
  "auth-required": ["waiting", "Waiting for you"],
  completed: ["done", "Done"],
  failed: ["failed", "Failed"],
  rejected: ["failed", "Declined"],
  canceled: ["canceled", "Stopped"],
  working: ["done", "Step done"],
};

/** What is over. `again(taskId)` makes the button to have it done once more. */
export function drawWorked(element, item, again) {
  drawLine(element, item, done(item, again));
}

/** Its line, with what was done folded below. */
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
  const close = () => (details.open = false); // without a line there is nothing to show
  details.ontoggle = () => details.open && import("./steps.js").then(({ drawSteps }) => drawSteps(list, item.steps), close);
  details.ontoggle();
}

function done(item, again) {
  const [look, word] = OUTCOMES[item.outcome] ?? OUTCOMES.working;
  const count = item.steps.length;
  const steps = count ? `${count} ${count === 1 ? "step" : "steps"} · ` : "";
  const plain = look === "done" || look === "waiting";
  return [
    sign(plain ? "done" : look),
    h("span", { class: "text figures" }, `${plain ? "" : `${word} · `}${steps}${seconds(item.began, item.ended)}`),
    item.outcome === "canceled" ? again(item.taskId) : null,
  ];
}

/** How long something took, or has been going on. */
export function seconds(from, to) {
  const passed = Math.max(0, (new Date(to) - new Date(from)) / 1000);
  if (passed < 0.1) return "less than 0.1 s";
  if (passed < 10) return `${passed.toFixed(1)} s`;
  if (passed < 60) return `${Math.floor(passed)} s`;
  const minutes = Math.floor(passed / 60);
  return minutes < 60 ? `${minutes} min ${Math.floor(passed % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
