// Copying a piece of code.

export function start(page) {
  document.getElementById("items").addEventListener("click", async ({ target }) => {
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
