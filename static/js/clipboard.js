// Copying text to the clipboard, and confirming it.
import { toast } from "./toast.js";

/**
 * `words`, or a promise of them: browsers require that the clipboard is asked immediately. Returns whether it worked, and calls
 * `tell`.
 */
export async function copyText(words, done = "Copied.", tell = toast) {
  try {
    await (typeof words === "string" ? written(words) : writtenLater(words));
    tell(done);
    return true;
  } catch {
    tell("The browser did not let this be copied. Select it, then copy it by hand.");
    return false;
  }
}

/** The text at an address. */
export async function copyFrom(address, done = "Copied.") {
  let isThere = true;
  const text = fetch(address).then((answer) => (answer.ok ? answer.text() : Promise.reject(new Error(`${answer.status}`))));
  text.catch(() => (isThere = false));
  return copyText(text, done, (sentence) => toast(isThere ? sentence : "This could not be fetched. Wait a moment, then try again."));
}

/** Buttons that copy the text at an address, or of the element with an id. */
document.addEventListener("click", async ({ target }) => {
  const button = target.closest("[data-copy]");
  if (!button) return;
  const { copy } = button.dataset;
  const isDone = await (copy.startsWith("/") ? copyFrom(copy) : copyText(document.getElementById(copy).textContent));
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
