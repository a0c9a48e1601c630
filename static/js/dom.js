// Small functions that every view uses.

const isThere = (value) => (value ?? false) !== false;

/** An element: `h("a", {class: "chip", href}, icon("file"), name)`. Text is always text, never HTML. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (!isThere(value)) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter(isThere));
  return element;
}

/** Only HTML that the server made safe (`apps/record/content/rendering.py` and templates). */
export function safe(element, html) {
  element.innerHTML = html;
  return element;
}

/** The text of a message as it is shown, with formulas as TeX, and without buttons (`prose.css` hides them meanwhile). */
export function shownText(message) {
  const prose = message?.querySelector(".prose");
  if (!prose) return undefined;
  const formulas = [...prose.querySelectorAll("math")].map((math) => {
    const sign = math.closest(".display") ? "$$" : "$";
    const words = h("span", {}, sign + math.getAttribute("alttext") + sign);
    math.before(words);
    return words;
  });
  prose.classList.add("is-copied");
  const text = prose.innerText.trim();
  prose.classList.remove("is-copied");
  for (const words of formulas) words.remove();
  return text;
}

const SVG = "http://www.w3.org/2000/svg";

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `${document.body.dataset.icons}#${name}`);
  svg.append(use);
  return svg;
}

/** A state's sign: a shape in its color. The word is beside it. */
export function sign(look) {
  return h("span", { class: `sign sign-${look}` }, icon(look));
}
