// Draws a line from one step of the picture to another by mouse or pen. A finger scrolls, and has the list “Runs after” in the form.

const FAR = 8; // pixels, from which a press is a drag
const SVG = "http://www.w3.org/2000/svg";

/** `drawn(from, to)` gets the keys of two steps. */
export function drawLines(drawn) {
  let from = null; // {step, x, y, line}
  let wasDragged = false;

  document.addEventListener("dragstart", (event) => event.target.closest?.("#plan-picture a.step") && event.preventDefault());

  document.addEventListener("pointerdown", (event) => {
    wasDragged = false;
    const step = event.target.closest?.("#plan-picture a.step");
    if (step && event.button === 0 && event.pointerType !== "touch") from = { step, x: event.clientX, y: event.clientY, line: null };
  });

  document.addEventListener("pointermove", (event) => {
    if (!from) return;
    if (!from.line && Math.hypot(event.clientX - from.x, event.clientY - from.y) < FAR) return;
    from.line ??= begin(from.step);
    draw(from, event);
  });

  const end = (event) => {
    if (!from) return;
    const { step, line } = from;
    from = null;
    if (!line) return;
    line.remove();
    wasDragged = true;
    const to = document.elementFromPoint(event.clientX, event.clientY)?.closest("#plan-picture a.step");
    if (event.type === "pointerup" && to && to !== step) drawn(keyOf(step), keyOf(to));
  };
  document.addEventListener("pointerup", end);
  document.addEventListener("pointercancel", end);

  // The click that ends a drag opens no step.
  document.addEventListener(
    "click",
    (event) => {
      if (wasDragged && event.target.closest?.("#plan-picture a.step")) {
        event.preventDefault();
        event.stopPropagation();
      }
      wasDragged = false;
    },
    true,
  );
}

const keyOf = (step) => step.getAttribute("href").replace("#step-", "");

function begin(step) {
  const line = document.createElementNS(SVG, "path");
  line.setAttribute("class", "edge is-drawn");
  step.ownerSVGElement.append(line);
  return line;
}

function draw({ step, line }, event) {
  const svg = step.ownerSVGElement;
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const box = step.querySelector(".node").getBBox();
  line.setAttribute("d", `M${box.x + box.width} ${box.y + box.height / 2}L${at.x} ${at.y}`);
}
