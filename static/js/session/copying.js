// The whole session in the clipboard, as the server writes it.
import { copyFrom } from "../copying.js";

export function start(page) {
  document.querySelector("#session-menu [data-act=copy-markdown]").addEventListener("click", async ({ currentTarget }) => {
    document.getElementById("session-menu").hidePopover();
    await copyFrom(currentTarget.dataset.from, "The session is in the clipboard, as Markdown.");
    page.composer.words.focus();
  });
}
