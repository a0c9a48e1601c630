// Two entries of a conversation's menus: continuing with another agent, and copying the conversation.
import { copyFrom } from "../clipboard.js";
import { persist } from "../requests.js";

const LOST = "The agent was not switched. Try again when you are back online.";

export function startSwitching(page) {
  const menu = document.getElementById("switch-to");
  const opener = document.getElementById("switch");
  menu.addEventListener("click", async ({ target }) => {
    const choice = target.closest("[data-switch]");
    if (!choice) return;
    menu.hidePopover();
    opener.disabled = true;
    try {
      await persist("PATCH", `/sessions/${page.id}`, { agent: choice.dataset.switch }, LOST); // the connection brings the change
    } catch (problem) {
      page.complain(problem.message);
    } finally {
      opener.disabled = false;
      page.composer.words.focus();
    }
  });
}

export function startCopying(page) {
  document.querySelector("#session-menu [data-act=copy-markdown]").addEventListener("click", async ({ currentTarget }) => {
    document.getElementById("session-menu").hidePopover();
    await copyFrom(currentTarget.dataset.from, "Session copied as Markdown.");
    page.composer.words.focus();
  });
}
