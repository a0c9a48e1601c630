// Tells a screen reader what happened while the page was open: each thing once, when it is complete (`said` of a patch).
import { h, safe } from "../dom.js";
import { itemOf } from "./state.js";

const KEPT = 20; // the last text stays, so that a slow reader is not interrupted

export function start(page) {
  const region = document.getElementById("announcer");
  const announce = () => {
    const said = page.said.splice(0).map(([words, key]) => h("p", {}, `${words} ${textOf(itemOf(page.state, key))}`.trim()));
    region.append(...said);
    while (region.children.length > KEPT) region.firstElementChild.remove();
  };
  page.on("patched", announce);
  announce(); // why this module was loaded
}

function textOf({ text, html } = {}) {
  if (text) return text;
  const shown = safe(h("div"), html ?? "");
  return (shown.querySelector(".prose") ?? shown).textContent;
}
