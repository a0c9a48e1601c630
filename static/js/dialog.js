// Dialogs over the page: a heading, a body and a close button. Escape closes it, and the focus goes back.
import { h, icon } from "./dom.js";

let number = 0;

/** Shows `content` (elements) under `title`; returns the dialog. `opener` gets the focus back. */
export function showDialog(title, content, opener = document.activeElement) {
  const id = `dialog-${(number += 1)}`;
  const away = () => dialog.close();
  const close = h("button", { type: "button", class: "quiet round", title: "Close", "aria-label": "Close", onclick: away }, icon("close"));
  const head = h("header", { class: "dialog-head" }, h("h2", { id }, title), close);
  const body = h("div", { class: "dialog-body" }, content);
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": id }, head, body);
  dialog.addEventListener("click", ({ target }) => target === dialog && away()); // the page beside it
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (document.activeElement === document.body) opener?.focus(); // a focus that moved elsewhere stays there
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
