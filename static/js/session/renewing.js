// What waits to be sent, read anew as the server draws it, as other lists are. A row that says the same stays the same element,
// with its focus and with a click that waits for its script; and so does one in which somebody writes.
import { h, safe } from "../dom.js";

const newest = new WeakMap(); // how often each list was asked for

/** What a list has by now (`data-address`), in an element; null where that cannot be read, or was asked for again meanwhile. */
export async function drawnAnew(list) {
  const asked = (newest.get(list) ?? 0) + 1;
  newest.set(list, asked);
  const answer = await fetch(list.dataset.address).catch(() => null); // it is read again when the line is back
  const html = answer?.ok && !answer.redirected ? await answer.text().catch(() => null) : null;
  return html === null || asked !== newest.get(list) ? null : safe(h("div"), html);
}

/** `#queued` is told of it by "renewed", with what had the focus there. */
export async function renewQueue() {
  const list = document.getElementById("queued");
  const fresh = await drawnAnew(list);
  if (!fresh) return;
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  for (const row of fresh.querySelectorAll("[data-id]")) {
    const known = list.querySelector(`[data-id="${row.dataset.id}"]`);
    if (known?.outerHTML === row.outerHTML || known?.querySelector("form")) row.replaceWith(known);
  }
  list.replaceChildren(...fresh.childNodes);
  if (focused?.isConnected) focused.focus({ preventScroll: true });
  list.dispatchEvent(new CustomEvent("renewed", { detail: focused }));
}
