// Copying a piece of code; and the rest of a long message, which is folded (messages.css) as long as its button is there.
import { copyText } from "../copying.js";

export function start() {
  document.getElementById("items").addEventListener("click", async ({ target }) => {
    if (target.matches(".show-all")) showAll(target);
    if (!target.matches(".copy-code") || !(await copyText(target.closest(".code").querySelector("pre").innerText))) return;
    target.textContent = "Copied";
    setTimeout(() => (target.textContent = "Copy"), 2000);
  });
}

/** The focus goes to what is shown. */
function showAll(button) {
  const message = button.closest(".message");
  button.remove();
  message.tabIndex = -1;
  message.focus({ preventScroll: true });
}
