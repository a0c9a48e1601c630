// Keyboard shortcuts, wherever the focus is. Ctrl or Cmd and / lists them.

export const isMac = /Mac|iP(hone|ad)/.test(navigator.platform);
export const shortcuts = []; // {keys, words, run}

/** `keys`: "mod+k" (Ctrl, or Cmd on a Mac), "alt+ArrowUp", "Escape". If `run` returns false, the key keeps its usual meaning. */
export function shortcut(keys, words, run) {
  shortcuts.push({ keys, words, run });
}

function keysOf(event) {
  if (event.key === ":" && event.shiftKey && (isMac ? event.metaKey : event.ctrlKey)) return "mod+shift+;"; // the same key
  const mod = isMac ? event.metaKey : event.ctrlKey;
  const isShift = event.shiftKey && (event.key.length > 1 || (mod && /[a-z]/i.test(event.key))); // some keyboards need it for other characters
  const held = [mod && "mod", event.altKey && "alt", isShift && "shift"].filter(Boolean);
  return [...held, event.key.length === 1 ? event.key.toLowerCase() : event.key].join("+");
}

document.addEventListener("keydown", (event) => {
  if (event.isComposing || event.defaultPrevented) return;
  const pressed = keysOf(event);
  const found = shortcuts.findLast(({ keys }) => keys === pressed);
  if (found && found.run(event) !== false) event.preventDefault();
});
