// Keyboard shortcuts of a conversation.
import { copyText } from "../clipboard.js";
import { shownText } from "../dom.js";
import { shortcut } from "../shell/shortcuts.js";
import { toast } from "../toast.js";

export function start(page) {
  shortcut("shift+Escape", "Go to the message field", () => page.composer.words.focus());
  shortcut("mod+shift+c", "Copy the last answer", () => copy(lastAnswer(page), "Last answer copied.", "There is no answer to copy yet."));
  shortcut("mod+shift+;", "Copy the last code block", () => copy(lastCode(), "Last code block copied.", "There is no code to copy yet."));
}

function copy(text, done, nothing) {
  if (text) copyText(text, done);
  else toast(nothing);
}

/** As the answer's own button copies it. */
function lastAnswer(page) {
  const item = page.state.items.findLast(({ kind, role, text, textAt }) => kind === "message" && role === "agent" && (text || textAt));
  return item && (shownText(page.element(item)) || item.text);
}

function lastCode() {
  return [...document.querySelectorAll("#items .from-agent .code pre")].at(-1)?.innerText;
}
