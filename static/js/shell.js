// What every signed-in page does: tell times, keep the list of sessions live, and open what is loaded when it is wanted.
import { keepFor, keepOffline } from "./device.js";
import { watch } from "./offline.js";
import { isMac, shortcut } from "./shortcuts.js";
import { Sidebar } from "./sidebar.js";
import { dress } from "./times.js";

const QUIET = 1000; // ms after a page is there: what it is for comes first

for (const time of document.querySelectorAll("time[datetime]")) dress(time);

const sidebar = document.querySelector(".sidebar[data-position]");
if (sidebar) new Sidebar(sidebar);

// What opens over the page

document.getElementById("account").addEventListener("beforetoggle", () => import("./account.js").catch(later));

const OPEN = {
  palette: () => openPalette("find", "Search"),
  new: () => openPalette("new", "New session"),
  help: async () => (await import("./help.js")).open(),
};

/** It is there at once; what is typed before its script comes is not lost. */
async function openPalette(mode, name) {
  const palette = document.getElementById("palette");
  palette.ariaLabel = name;
  if (!palette.open) {
    palette.querySelector("input").value = "";
    palette.showModal();
  }
  const { open } = await import("./palette.js").catch((problem) => {
    palette.close();
    throw problem;
  });
  if (palette.open) open(mode);
}

const later = () => import("./failed.js").then(({ sayLater }) => sayLater(), () => {});

const opens = (name) => () => OPEN[name]().catch(later);

shortcut("mod+k", "Search", opens("palette"));
shortcut("mod+shift+o", "New session", opens("new"));
shortcut("mod+/", "Keyboard shortcuts", opens("help"));
document.querySelector("[data-keys]").textContent = isMac ? "⌘K" : "Ctrl+K";

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const more = event.target.closest("[data-more]");
  if (more) import("./rows.js").then(({ open }) => open(more), later);
  const opener = event.target.closest("[data-open]");
  if (!opener) return;
  event.preventDefault();
  opener.closest("[popover]")?.hidePopover();
  OPEN[opener.dataset.open]().catch(() => (opener.href ? location.assign(opener.href) : later()));
});

for (const name of ["htmx:responseError", "htmx:sendError"]) {
  document.addEventListener(name, ({ detail }) => import("./failed.js").then(({ tell }) => tell(detail), () => {}));
}

// What this browser keeps of a person

const { user } = document.body.dataset;
keepFor(user); // before what is kept is sent: it may be another's
watch(sidebar);
if (localStorage.getItem(`parley.deleting.${user}`)) import("./deleting.js").then(({ resume }) => resume());
addEventListener("load", () => setTimeout(() => keepOffline().catch(() => {}), QUIET));
