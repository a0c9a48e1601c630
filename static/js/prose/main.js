// What agents' texts do: buttons of code and pictures, and diagrams. On every page that shows such texts.
import { copyText, quietly, sayCopied } from "../clipboard.js";
import { h } from "../dom.js";

const ACTS = {
  "copy-code": copyCode,
  "wrap-code": (button) => (button.ariaPressed = button.closest(".code").classList.toggle("is-wrapped")),
  "show-source": (button) => (button.ariaPressed = button.closest(".code").classList.toggle("shows-source")),
  "unfold-code": unfold,
  "remote-picture": showPicture,
};

document.addEventListener("click", (event) => {
  const button = event.target.closest?.(Object.keys(ACTS).map((name) => `.${name}`).join());
  if (!button) return;
  event.preventDefault(); // a picture may be in a link
  ACTS[Object.keys(ACTS).find((name) => button.classList.contains(name))](button);
});

async function copyCode(button) {
  if (await copyText(button.closest(".code").querySelector("pre").textContent, "Copied.", quietly)) sayCopied(button);
}

function unfold(button) {
  const code = button.closest(".code");
  code.classList.remove("is-folded");
  button.remove();
  code.querySelector("pre").focus();
}

/** The reader asked for it: our server fetches a copy. */
function showPicture(button) {
  const { picture, words } = button.dataset;
  const image = h("img", { src: picture, alt: words, class: "is-loading" });
  image.addEventListener("load", () => image.classList.remove("is-loading"));
  image.addEventListener("error", () => image.replaceWith(h("span", { class: "no-picture" }, `${words} (this picture could not be loaded)`)));
  button.replaceWith(image);
}

/** A picture that is missing leaves its words. */
document.addEventListener("error", ({ target }) => {
  if (target.matches?.(".prose img:not(.is-loading)")) target.replaceWith(h("span", { class: "no-picture" }, target.alt));
}, { capture: true });

const DIAGRAM = ".code code.language-mermaid";

function watchDiagrams(root) {
  const found = root.querySelectorAll(DIAGRAM);
  if (found.length) import("./diagrams.js").then(({ watch }) => found.forEach((code) => watch(code.closest(".code"))), () => {});
}

watchDiagrams(document);
new MutationObserver((changes) => {
  for (const { addedNodes } of changes) for (const node of addedNodes) if (node.querySelectorAll) watchDiagrams(node);
}).observe(document.body, { childList: true, subtree: true });
