// What led to an artifact: its JSON is copied by a button.
import { copyText } from "./copying.js";

document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-copy]");
  if (button) copyText(whole(button.dataset.copy));
});

async function whole(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error("not copied");
  return answer.text();
}
