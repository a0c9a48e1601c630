// Copying text to the clipboard, and confirming it.
import { announce, toast } from "./toast.js";

/**
 * `words`, or a promise of them: browsers require that the clipboard is asked immediately. Returns whether it worked, and calls
 * `tell`.
 */
export async function copyText(words, done = "Copied.", tell = toast) {
  try {
    await (typeof words === "string" ? written(words) : writtenLater(words));
    tell(done, true);
    return true;
  } catch {
    tell("Your browser blocked copying. Select the text and copy it yourself.", false);
    return false;
  }
}

/** Where the page itself shows that something was copied: only screen readers need a notice. */
export const quietly = (sentence, isDone) => (isDone ? announce : toast)(sentence);

/** The text at an address. */
export async function copyFrom(address, done = "Copied.", tell = toast) {
  let isThere = true;
  const text = fetch(address).then((answer) => (answer.ok ? answer.text() : Promise.reject(new Error(`${answer.status}`))));
  text.catch(() => (isThere = false));
  return copyText(text, done, (sentence, isDone) => tell(isThere ? sentence : "This could not be loaded. Wait a moment, then try again.", isDone));
}

/** Buttons that copy the text at an address, or of the element with an id. */
document.addEventListener("click", async ({ target }) => {
  const button = target.closest("[data-copy]");
  if (!button) return;
  const { copy } = button.dataset;
  const isDone = await (copy.startsWith("/") ? copyFrom(copy, "Copied.", quietly) : copyText(document.getElementById(copy).textContent, "Copied.", quietly));
  if (isDone) sayCopied(button);
});

/** The button itself confirms it for a moment. */
export function sayCopied(button) {
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

async function written(words) {
  if (navigator.clipboard) return navigator.clipboard.writeText(words);
  const field = document.createElement("textarea"); // pages without TLS have no clipboard
  field.value = words;
  field.className = "visually-hidden";
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  const { activeElement } = document;
  field.select();
  const isDone = document.execCommand("copy");
  field.remove();
  activeElement?.focus();
  if (!isDone) throw new Error("not copied");
}

async function writtenLater(promise) {
  if (!navigator.clipboard?.write) return written(await promise);
  const blob = promise.then((words) => new Blob([words], { type: "text/plain" }));
  return navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
}
