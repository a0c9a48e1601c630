// The keyboard shortcuts of this page.
import { showDialog } from "../dialog.js";
import { h } from "../dom.js";
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
/** By selector: keys that work if the page has such an element. */

let help = null;

export function showShortcuts() {
  if (help?.open) return help.close();
  const here = HERE.filter(([place]) => document.querySelector(place)).map(([, keys, words]) => [keys, words]);
  const named = [...shortcuts.filter(({ words }) => words).map(({ keys, words }) => [keys, words]), ...here];
  const rows = [...named.map(([keys, words]) => [keyNames(keys), words]), ...ALWAYS];
  const list = rows.map(([keys, words]) => h("div", {}, h("dt", {}, words), h("dd", {}, h("kbd", {}, keys))));
  help = showDialog("Keyboard shortcuts", [h("dl", {}, list)]);
  help.classList.add("help");
}

/** Keys as labeled on the keyboard: "Ctrl+Shift+O", "⇧⌘O". */
function keyNames(keys) {
  const signs = { ArrowUp: "↑" };
  const names = isMac ? { mod: "⌘", alt: "⌥", shift: "⇧" } : { mod: "Ctrl", alt: "Alt", shift: "Shift" };
  return keys.split("+").map((key) => names[key] ?? signs[key] ?? (key.length === 1 ? key.toUpperCase() : key)).join(isMac ? "" : "+");
}
