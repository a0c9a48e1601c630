// Going on with another agent, chosen in the head of the page.
import { post } from "../post.js";

const LOST = "You go on with the agent that you have. Choose again when the line is back.";

export function start(page) {
  const menu = document.getElementById("switch-to");
  const opener = document.getElementById("switch");
  menu.addEventListener("click", async ({ target }) => {
    const choice = target.closest("[data-switch]");
    if (!choice) return;
    menu.hidePopover();
    const form = new FormData();
    form.append("agent", choice.dataset.switch);
    opener.disabled = true;
    try {
      await post(page.beginning.switch, form, LOST); // the line brings what it changed
    } catch (problem) {
      page.complain(problem.message);
    } finally {
      opener.disabled = false;
      page.composer.words.focus();
    }
  });
}
