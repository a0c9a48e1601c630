// The tree of a session's branches in a dialog; the tree also has a page of its own.
import { showDialog } from "../dialog.js";
import { h, safe } from "../dom.js";

export function start() {
  const menu = document.getElementById("session-menu");
  menu.querySelector("[data-act=tree]").addEventListener("click", async (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const { href } = event.currentTarget;
    const answer = await fetch(href, { headers: { "HX-Request": "true" } }).catch(() => null);
    if (!answer?.ok || answer.redirected) return location.assign(href);
    menu.hidePopover();
    const opener = document.getElementById("session-more");
    const dialog = showDialog("Branches", [...safe(h("div"), await answer.text()).childNodes], opener);
    dialog.classList.add("is-wide");
    dialog.querySelector(".tree [aria-current]")?.focus();
  });
}
