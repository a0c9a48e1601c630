// Keys that do something wherever the focus is. What they are called is listed by Ctrl or Cmd and /.

export const isMac = /Mac|iP(hone|ad)/.test(navigator.platform);
export const shortcuts = []; // {keys, words, run}

/** `keys`: "mod+k" (Ctrl, or Cmd on a Mac), "alt+ArrowUp", "Escape". Where `run` gives false, the key keeps its own meaning. */
export function shortcut(keys, words, run) {
  shortcuts.push({ keys, words, run });
}

function keysOf(event) {
  const mod = isMac ? event.metaKey : event.ctrlKey;
  const isShift = event.shiftKey && (event.key.length > 1 || (mod && /[a-z]/i.test(event.key))); // other signs need it to be typed
  const held = [mod && "mod", event.altKey && "alt", isShift && "shift"].filter(Boolean);
  return [...held, event.key.length === 1 ? event.key.toLowerCase() : event.key].join("+");
}

document.addEventListener("keydown", (event) => {
  if (event.isComposing || event.defaultPrevented) return;
  const pressed = keysOf(event);
  const found = shortcuts.findLast(({ keys }) => keys === pressed);
  if (found && found.run(event) !== false) event.preventDefault();
});
