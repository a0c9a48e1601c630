// The tools that run in the session without asking, in a dialog; the list also has a page of its own.
import { showDialog } from "../dialog.js";
import { h, safe } from "../dom.js";
import { request } from "../requests.js";
import { toast } from "../toast.js";

const FRAGMENT = { headers: { "HX-Request": "true" } };

export function start() {
  const menu = document.getElementById("session-menu");
  menu.querySelector("[data-act=allowed]").addEventListener("click", async (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const { href } = event.currentTarget;
    const list = h("div", {});
    if (!(await draw(list, fetch(href, FRAGMENT)))) return location.assign(href);
    menu.hidePopover();
    const dialog = showDialog("Allowed tools", [list], document.getElementById("session-more"));
    list.addEventListener("submit", async (submitted) => {
      submitted.preventDefault();
      const isDrawn = await draw(list, request(href, { ...FRAGMENT, method: "POST", body: new FormData(submitted.target) }));
      if (!isDrawn) toast("The tool is still allowed. Try again in a moment.");
      (list.querySelector("button") ?? dialog.querySelector("button")).focus();
    });
  });
}

/** Returns whether the list could be read. */
async function draw(list, reading) {
  const answer = await reading.catch(() => null);
  if (!answer?.ok || answer.redirected) return false;
  safe(list, await answer.text());
  return true;
}
