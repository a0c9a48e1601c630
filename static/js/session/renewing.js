// What waits to be sent, read anew as the server draws it. A row that says the same stays the same element, with its focus and
// with a click that waits for its script; and so does one in which somebody writes.
import { h, safe } from "../dom.js";

let newest = 0;

/** `#queued` is told of it by "renewed", with what had the focus there. */
export async function renewQueue() {
  const list = document.getElementById("queued");
  const asked = (newest += 1);
  const answer = await fetch(list.dataset.address).catch(() => null); // it is read again when the line is back
  const html = answer?.ok && !answer.redirected ? await answer.text().catch(() => null) : null;
  if (html === null || asked !== newest) return;
  const fresh = safe(h("div"), html);
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  for (const row of fresh.querySelectorAll("[data-id]")) {
    const known = list.querySelector(`[data-id="${row.dataset.id}"]`);
    if (known?.outerHTML === row.outerHTML || known?.querySelector("form")) row.replaceWith(known);
  }
  list.replaceChildren(...fresh.childNodes);
  if (focused?.isConnected) focused.focus({ preventScroll: true });
  list.dispatchEvent(new CustomEvent("renewed", { detail: focused }));
}
