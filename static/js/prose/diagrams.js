// Mermaid diagrams: a sandboxed frame (`frame.js`) draws them, and the page shows each as a picture. The source stays on a button, or
// if it cannot be drawn.
import { h } from "../dom.js";

const PATIENCE = 20_000; // ms until the frame is given up
const MOST_CHARACTERS = 2_000_000; // of a drawing
const MOST_PIXELS = 4_000; // of its sides
const SVG = "http://www.w3.org/2000/svg";

const waiting = new Map(); // by number: what to do with the answer
const scheme = matchMedia("(prefers-color-scheme: dark)");
let frame = null; // a promise of it
let drawn = 0; // the number of the last diagram

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    draw(target);
  }
}, { rootMargin: "300px" });

/** Draw a block of code (`.code`) when it comes into view. */
export function watch(block) {
  if (block.dataset.diagram) return;
  block.dataset.diagram = "waiting";
  near.observe(block);
}

async function draw(block) {
  const source = block.querySelector("pre").textContent;
  try {
    show(block, picture(await ask(source)));
  } catch (problem) {
    block.dataset.diagram = "failed";
    block.querySelector(".language").textContent = "mermaid (cannot be drawn)";
    block.title = problem.message;
  }
}

async function ask(text) {
  frame ??= open();
  const { contentWindow } = await frame;
  const id = ++drawn;
  const answer = new Promise((done, failed) => {
    waiting.set(id, { done, failed });
    setTimeout(() => failed(new Error("Drawing took too long.")), PATIENCE);
  });
  contentWindow.postMessage({ id, text, isDark: isDark() }, "*");
  return answer.finally(() => waiting.delete(id));
}

function open() {
  const element = h("iframe", { class: "diagram-frame", src: "/diagrams", sandbox: "allow-scripts", title: "Draws diagrams", "aria-hidden": "true", tabindex: "-1" });
  return new Promise((done, failed) => {
    addEventListener("message", ({ data, source }) => {
      if (source !== element.contentWindow || typeof data !== "object" || !data) return;
      if (data.isReady) return done(element);
      const { done: drawing, failed: none } = waiting.get(data.id) ?? {};
      if (typeof data.svg === "string" && data.svg.length <= MOST_CHARACTERS) drawing?.(data.svg);
      else none?.(new Error(String(data.problem ?? "").slice(0, 300)));
    });
    setTimeout(() => failed(new Error("The drawing program could not be loaded.")), PATIENCE);
    document.body.append(element);
  }).catch((problem) => {
    element.remove();
    frame = null;
    throw problem;
  });
}

/** The drawing as a picture: as such, nothing in it runs or loads. */
function picture(text) {
  const svg = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  const [, , width, height] = (svg.getAttribute("viewBox") ?? "").split(/[\s,]+/).map(Number);
  if (svg.namespaceURI !== SVG || !(width > 0 && height > 0)) throw new Error("There is nothing to draw.");
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.removeAttribute("style");
  const title = svg.querySelector("title")?.textContent || svg.getAttribute("aria-roledescription") || "";
  const src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
  const [w, hgt] = [width, height].map((side) => Math.min(Math.ceil(side), MOST_PIXELS));
  return h("img", { class: "diagram", src, width: w, height: hgt, alt: `Diagram: ${title}. Its source is on the button.` });
}

function show(block, image) {
  const known = block.querySelector("img.diagram");
  if (known) return known.replaceWith(image);
  block.dataset.diagram = "drawn";
  block.classList.remove("is-folded");
  block.querySelector(".unfold-code")?.remove();
  block.querySelector("pre").before(h("div", { class: "diagram-scroll", tabindex: "0" }, image));
  const source = h("button", { type: "button", class: "quiet small show-source", "aria-pressed": "false" }, "Source");
  block.querySelector(".wrap-code").before(source);
}

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : scheme.matches;
}

function redraw() {
  for (const block of document.querySelectorAll("[data-diagram=drawn]")) draw(block);
}

scheme.addEventListener("change", redraw);
new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
