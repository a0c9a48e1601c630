// The script of every signed-in page: local times, live lists of sessions, and parts that load when first used.
import { Follower } from "../client/follow.js";
import { localizeTime } from "../format.js";
import { keepFor, keepOffline } from "./device.js";
import { isMac, shortcut } from "./shortcuts.js";

const QUIET = 1000; // ms after the page has loaded: its own scripts come first

for (const time of document.querySelectorAll("time[datetime]")) localizeTime(time);

// Dialogs over the page

const account = document.getElementById("account");
const loadAccount = () => import("./account.js").catch(() => notLoaded());
account.addEventListener("beforetoggle", loadAccount);
if (account.matches(":popover-open")) loadAccount(); // opened before this script

const OPEN = {
  palette: () => openPalette("find", "Search"),
  agents: () => openPalette("agents", "Choose an agent"),
  help: async () => (await import("./help.js")).showShortcuts(),
};

/** The dialog opens at once; it keeps what is typed before its script has loaded. */
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

/** On the home page, a new session begins here. */
function focusComposer() {
  const words = document.querySelector("#composer[data-draft='/'] textarea");
  words?.focus();
  return Boolean(words);
}

const notLoaded = () => import("../toast.js").then(({ reportNotLoaded }) => reportNotLoaded(), () => {});

const opens = (name) => () => OPEN[name]().catch(notLoaded);

shortcut("mod+k", "Search", opens("palette"));
shortcut("mod+shift+o", "New session", () => focusComposer() || document.querySelector("[data-new]")?.click());
shortcut("mod+/", "Keyboard shortcuts", opens("help"));
document.querySelector("[data-keys]").textContent = isMac ? "⌘K" : "Ctrl+K";

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  if (event.target.closest("[data-new]") && focusComposer()) return event.preventDefault();
  const more = event.target.closest("[data-more]");
  if (more) import("./rows.js").then(({ open }) => open(more), notLoaded);
  const opener = event.target.closest("[data-open]");
  if (!opener) return;
  event.preventDefault();
  opener.closest("[popover]")?.hidePopover();
  OPEN[opener.dataset.open]().catch(() => (opener.href ? location.assign(opener.href) : notLoaded()));
});

for (const name of ["htmx:responseError", "htmx:sendError"]) {
  document.addEventListener(name, ({ detail }) => import("../toast.js").then(({ reportFailure }) => reportFailure(detail), () => {}));
}

/** The lists of sessions, live: after a change, the server draws them again. */
class Sidebar {
  constructor(element) {
    this.element = element;
    const { user, position, types } = element.dataset;
    const elsewhere = new BroadcastChannel(`parley.marks.${user}`); // other tabs
    elsewhere.onmessage = ({ data }) => this.renewSoon(data);
    document.addEventListener("sessions-changed", ({ detail }) => {
      elsewhere.postMessage(detail?.isMoved ?? true);
      if (!detail?.isShown) this.renewSoon(detail?.isMoved, true);
    });
    document.addEventListener("visibilitychange", () => document.hidden || this.renewSoon());
    addEventListener("storage", ({ key }) => key === `parley.deleting.${user}` && this.renewSoon());
    element.addEventListener("click", async ({ target }) => {
      if (target.id === "show-more") (await import("./lists.js")).showMore(target);
    });
    new Follower({
      since: position,
      types: types.split(" "),
      heard: (events) => this.hear(events),
      changed: (name) => this.told(name),
    });
    const waiting = Number(element.querySelector(".recent").dataset.waiting);
    if (waiting) showInTitle(waiting);
    navigator.serviceWorker?.addEventListener("message", ({ data }) => data.old && this.renewSoon());
  }

  hear(events) {
    const told = events.filter(({ payload }) => !payload?.progress);
    if (!told.length) return;
    document.dispatchEvent(new CustomEvent("sessions-heard", { detail: told }));
    import("./lists.js").then((lists) => lists.hear(told), () => {});
  }

  told(name) {
    const { dataset } = this.element;
    if (name === "changed" || (name === "live" && dataset.line === "lost")) this.renewSoon(); // some changes have no event
    if (name === "changed") import("../toast.js").then(({ reportChanged }) => reportChanged(), () => {});
    dataset.line = name;
  }

  /** `isMoved`: rows may move. `atOnce`: a change in this tab shows immediately. */
  renewSoon(isMoved = true, atOnce = false) {
    import("./lists.js").then((lists) => lists.renewSoon(isMoved, atOnce), () => {}); // offline; the next event retries
  }
}

/** `sidebar` shows the state of the connection by its `data-line`; a conversation's page has its own note. */
function watchConnection(sidebar) {
  const note = document.getElementById("offline");
  let was = true;
  const look = () => {
    const isHere = navigator.onLine && sidebar?.dataset.line !== "lost";
    if (note && isHere !== was) note.textContent = isHere ? "" : note.dataset.words;
    was = isHere;
    if (isHere && localStorage.getItem("unsent")) import("../compose/resend.js").then(({ sendOthers }) => sendOthers()).catch(() => {});
  };
  if (sidebar) new MutationObserver(look).observe(sidebar, { attributeFilter: ["data-line"] });
  addEventListener("offline", look);
  addEventListener("online", look);
  look();
}

// The number of waiting tasks, in the title of the page

document.addEventListener("waiting-counted", ({ detail }) => showInTitle(detail));

let mark = "";

function showInTitle(count) {
  const plain = document.title.startsWith(mark) ? document.title.slice(mark.length) : document.title;
  mark = count ? `(${count}) ` : "";
  writeTitle(plain);
}

function writeTitle(plain) {
  if (document.title !== mark + plain) document.title = mark + plain;
}

const keepMark = () => document.title.startsWith(mark) || writeTitle(document.title);
new MutationObserver(keepMark).observe(document.querySelector("title"), { childList: true });

// The person's data in this browser

const { user } = document.body.dataset;
const sidebar = document.querySelector(".sidebar[data-position]");
keepFor(user); // before kept messages are sent: they may be another person's
if (sidebar) new Sidebar(sidebar);
watchConnection(sidebar);
if (localStorage.getItem(`parley.deleting.${user}`)) import("./rows.js").then(({ resumeDeleting }) => resumeDeleting());
addEventListener("load", () => setTimeout(() => keepOffline().catch(() => {}), QUIET));
