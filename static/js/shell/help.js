// The keyboard shortcuts of this page.
import { showDialog } from "../dialog.js";
import { h } from "../dom.js";
import { isMac, shortcuts } from "./shortcuts.js";

const ALWAYS = [
  ["Enter", "Send the message"],
  ["Shift+Enter", "New line"],
  ["Escape", "Close a dialog or menu"],
];

const HERE = [
  ["#session", "ArrowUp", "Edit your last message, if the message field is empty"],
  ["#session", "mod+Enter", "Send now, while the agent works; save and run an edit"],
  ["#items .branches", "alt+← →", "Previous or next version of a message"],
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
