// The whole session in the clipboard, as the server writes it.
import { copyText } from "../copying.js";

export function start(page) {
  document.querySelector("#session-menu [data-act=copy-markdown]").addEventListener("click", async ({ currentTarget }) => {
    document.getElementById("session-menu").hidePopover();
    await copyText(markdown(currentTarget.dataset.from), "The session is in the clipboard, as Markdown.");
    page.composer.words.focus();
  });
}

async function markdown(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(String(answer.status));
  return answer.text();
}
