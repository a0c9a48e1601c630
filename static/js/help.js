// Which keys do what: the shortcuts that this page has now.
import { h, icon } from "./dom.js";
import { isMac, shortcuts } from "./shortcuts.js";

const ALWAYS = [
  ["Enter", "Send what you wrote"],
  ["Shift+Enter", "A new line in what you write"],
  ["Escape", "Close what is open"],
];

const HERE = [
  ["#session", "ArrowUp", "Change what you said last, where nothing is written"],
  ["#session", "mod+Enter", "Send at once while the agent works; save what you change"],
  ["#items .branches", "alt+← →", "The branch before or after, at a message"],
  ["#try", "mod+Enter", "Send the request"],
];
/** By what a page has: keys that are heard where one is. */

let dialog = null;

export function open() {
  if (dialog?.open) return dialog.close();
  dialog?.remove();
  const close = h("button", { type: "button", class: "quiet round", title: "Close", onclick: () => dialog.close() }, icon("close"));
  close.append(h("span", { class: "visually-hidden" }, "Close"));
  const head = h("header", { class: "help-head" }, h("h2", { id: "help-title" }, "Keyboard shortcuts"), close);
  const here = HERE.filter(([place]) => document.querySelector(place)).map(([, keys, words]) => [said(keys), words]);
  const named = [...shortcuts.filter(({ words }) => words).map(({ keys, words }) => [said(keys), words]), ...here, ...ALWAYS];
  const rows = named.map(([keys, words]) => h("div", {}, h("dt", {}, words), h("dd", {}, h("kbd", {}, keys))));
  dialog = h("dialog", { class: "help", "aria-labelledby": "help-title" }, head, h("dl", {}, ...rows));
  dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
}

/** Keys as they stand on the keyboard: "Ctrl+Shift+O", "⇧⌘O". */
function said(keys) {
  const signs = { ArrowUp: "↑" };
  const names = isMac ? { mod: "⌘", alt: "⌥", shift: "⇧" } : { mod: "Ctrl", alt: "Alt", shift: "Shift" };
  return keys.split("+").map((key) => names[key] ?? signs[key] ?? (key.length === 1 ? key.toUpperCase() : key)).join(isMac ? "" : "+");
}
