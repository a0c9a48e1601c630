// The menu at a switcher: the branches by name. They are opened, renamed in place and deleted here.
import { showDialog } from "../dialog.js";
import { h, safe } from "../dom.js";
import { localizeTime } from "../format.js";
import { withArrows } from "../menu.js";
import { placeMenu } from "../place.js";
import { deleteLater, renameRow } from "../shell/rows.js";
import { toast } from "../toast.js";

/** `leave(href)` is called when the person chooses a branch. */
export async function openMenu(page, opener, index, leave) {
  const answer = await fetch(`/sessions/${page.id}/branches?at=${index}`).catch(() => null);
  if (!answer?.ok || answer.redirected) return toast("The branches could not be loaded. Try again in a moment.");
  const menu = h("div", { class: "menu branch-menu", popover: "", role: "dialog", "aria-label": "Branches here" });
  menu.append(safe(h("div"), await answer.text()).firstElementChild);
  for (const time of menu.querySelectorAll("time[datetime]")) localizeTime(time);
  document.getElementById("main").append(menu);
  withArrows(menu);
  menu.addEventListener("toggle", ({ newState }) => newState === "closed" && closed(menu, opener));
  menu.addEventListener("click", (event) => pressed(event, menu, opener, leave));
  menu.showPopover();
  opener.setAttribute("aria-expanded", "true");
  placeMenu(menu, opener);
  menu.querySelector("[aria-current]").focus();
}

function closed(menu, opener) {
  opener.setAttribute("aria-expanded", "false");
  if (document.activeElement === document.body || menu.contains(document.activeElement)) opener.focus({ preventScroll: true });
  setTimeout(() => menu.remove()); // a name that is being saved is read from it
}

function pressed(event, menu, opener, leave) {
  const row = event.target.closest("li");
  const act = event.target.closest("[data-act]")?.dataset.act;
  if (act === "rename") renameRow(row, "Branch name");
  else if (act === "delete") remove(row, menu, opener, leave);
  else if (event.target.closest("a[data-session]") && !event.ctrlKey && !event.metaKey) leave(row.querySelector("a").href);
}

async function remove(row, menu, opener, leave) {
  const { key, first, continuing } = row.dataset;
  const name = row.querySelector(".name").textContent.trim();
  const isHere = row.querySelector("[aria-current]");
  const next = (row.nextElementSibling ?? row.previousElementSibling)?.querySelector("a").href;
  if (Number(continuing) && !(await isSure(name, Number(continuing), opener))) return;
  if (menu.matches(":popover-open")) menu.hidePopover();
  deleteLater(key, `The branch “${name}”`, `?after=${first}`);
  if (!isHere) return;
  if (next) leave(next);
  location.assign(next ?? "/");
}

function isSure(name, continuing, opener) {
  return new Promise((answer) => {
    const choose = (sure) => () => {
      answer(sure);
      dialog.close();
    };
    const what = continuing === 1 ? "1 branch continues" : `${continuing} branches continue`;
    const words = h("p", {}, `${what} after “${name}” and will be deleted, too.`);
    const yes = h("button", { type: "button", class: "primary", onclick: choose(true), autofocus: true }, `Delete ${continuing + 1} branches`);
    const no = h("button", { type: "button", class: "quiet", onclick: choose(false) }, "Cancel");
    const dialog = showDialog("Delete this branch?", [words, h("p", { class: "actions" }, yes, no)], opener);
    dialog.addEventListener("close", () => answer(false));
  });
}
