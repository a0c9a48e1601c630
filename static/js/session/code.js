// Copying a piece of code; and the rest of a long message, which is folded (messages.css) as long as its button is there.

export function start(page) {
  document.getElementById("items").addEventListener("click", async ({ target }) => {
    if (target.matches(".show-all")) showAll(target);
    if (!target.matches(".copy-code")) return;
    try {
      await navigator.clipboard.writeText(target.closest(".code").querySelector("pre").innerText);
    } catch {
      page.complain("Your browser did not allow copying. Select the code and copy it by hand.");
      return;
    }
    target.textContent = "Copied";
    page.announce("Copied.");
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
