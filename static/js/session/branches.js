// The switcher ‹ 2/3 › at branch points. Each branch is a session of its own and a link.
import { h } from "../dom.js";
import { api } from "../requests.js";
import { reportNotLoaded } from "../toast.js";

const CAME_BY = "parley.branch"; // the target of the switcher: it gets the focus
const ALL = "all"; // they came by the menu of all branches
const REST = 3000; // ms between two checks for forks made elsewhere

export function start(page) {
  new Branches(page);
}

class Branches {
  constructor(page) {
    Object.assign(this, { page, ways: page.beginning.branches ?? {}, looked: 0 });
    page.on("drawn", () => this.draw());
    page.on("patched", ({ isForked }) => isForked && this.lookSoon());
    document.addEventListener("visibilitychange", () => document.hidden || this.look());
    addEventListener("pageshow", ({ persisted }) => persisted && this.look());
    document.addEventListener("sessions-heard", ({ detail }) => detail.some(({ type }) => type === "fork") && this.lookSoon());
    document.addEventListener("sessions-changed", () => this.lookSoon()); // a branch was renamed or deleted here
    document.getElementById("items").addEventListener("keydown", (event) => this.pressed(event));
    this.draw();
    this.arrive();
    this.look();
  }

  draw() {
    for (const { item, element } of this.page.view.drawn.values()) {
      const parting = item.kind === "message" && item.index ? withoutDeleted(this.ways[item.index]) : null;
      const known = element.querySelector(".meta > .branches");
      const said = parting ? `${parting.place}/${parting.ways.length}` : "";
      if ((known?.dataset.said ?? "") === said) continue;
      const fresh = parting && this.switcher(parting, said, item.index);
      if (known && fresh) exchange(known, fresh);
      else if (fresh) (element.querySelector(".meta > .actions") ?? element.querySelector(".meta").lastChild).before(fresh);
      else known.remove();
    }
  }

  /** A fork that is made elsewhere adds no event to this session's log. */
  async look() {
    if (Date.now() - this.looked < REST) return;
    this.looked = Date.now();
    const answer = await fetch(`/sessions/${this.page.id}/ways`, { headers: { Accept: "application/json" } }).catch(() => null);
    if (!answer?.ok || answer.redirected) return;
    this.ways = await answer.json();
    this.draw();
  }

  switcher(parting, said, index) {
    const open = (opener) =>
      import("./branch-menu.js").then(({ openMenu }) => openMenu(this.page, opener, index, (href) => leave(href, ALL)), reportNotLoaded);
    return drawSwitcher(parting, said, open);
  }

  /** The first message of a new fork comes shortly after the fork. */
  lookSoon() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => {
      this.looked = 0;
      this.look();
    }, 1000);
  }

  /** Alt and an arrow key, on a message or in it. */
  pressed(event) {
    const step = event.altKey && { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
    const way = step && event.target.closest("li")?.querySelector(`.branches [rel=${step}]`);
    if (!way) return;
    event.preventDefault();
    if (way.href) way.click();
  }

  /** After using a switcher, the reader is at the same switcher again; the page itself scrolls to the message. */
  arrive() {
    const [path, rel] = (sessionStorage.getItem(CAME_BY) ?? "").split(" ");
    sessionStorage.removeItem(CAME_BY);
    if (!path || path !== location.pathname) return;
    const list = document.getElementById("items");
    const focus = () => {
      const here = document.getElementById(location.hash.slice(1));
      (here?.querySelector(`.branches ${stepOf(rel)}`) ?? here?.querySelector(".branches [href]"))?.focus();
    };
    const moved = ({ target }) => target.matches("li") && focus();
    list.addEventListener("focusin", moved);
    setTimeout(() => list.removeEventListener("focusin", moved), REST);
    focus();
  }
}

const stepOf = (rel) => (rel === ALL ? ".branch-count" : `[rel=${rel}][href]`);

/** Keeps the keyboard focus. */
function exchange(known, fresh) {
  const had = known.contains(document.activeElement) && (document.activeElement.getAttribute("rel") ?? ALL);
  known.replaceWith(fresh);
  if (had) (fresh.querySelector(stepOf(had)) ?? fresh.querySelector("[href]")).focus({ preventScroll: true });
}

/** Branches whose deletion can still be undone are not shown; nothing is left to switch with one alone. */
function withoutDeleted(parting) {
  if (!parting) return null;
  const doomed = Object.keys(JSON.parse(localStorage.getItem(`parley.deleting.${document.body.dataset.user}`) ?? "{}"));
  const isLeft = (href, at) => at === parting.place - 1 || !doomed.some((id) => href.includes(id));
  const ways = parting.ways.filter(isLeft);
  return ways.length > 1 ? { ways, place: ways.indexOf(parting.ways[parting.place - 1]) + 1 } : null;
}

function drawSwitcher({ place, ways }, said, open) {
  const way = (rel, sign, name, href) => {
    const go = () => leave(href, rel);
    if (!href) return h("span", { class: "branch-step", rel, "aria-hidden": "true" }, sign);
    return h("a", { class: "branch-step", rel, href, "aria-label": name, title: name, onclick: go }, sign);
  };
  return h(
    "span",
    { class: "branches", role: "group", "aria-label": `Branch ${place} of ${ways.length}`, "data-said": said },
    way("prev", "‹", "Previous branch", ways[place - 2]),
    h("button", { type: "button", class: "quiet branch-count figures", "aria-haspopup": "dialog", "aria-label": `Branch ${place} of ${ways.length}: all`, title: "All branches here", onclick: ({ currentTarget }) => open(currentTarget) }, said),
    way("next", "›", "Next branch", ways[place]),
  );
}

/** Store the chosen branch. Nothing waits for this, and it may fail. */
function leave(href, rel) {
  const { pathname } = new URL(href, location.href);
  sessionStorage.setItem(CAME_BY, `${pathname} ${rel}`);
  const session = pathname.split("/").at(-1);
  api("PUT", `/sessions/${session}/leaf`, { leafId: session }, { keepalive: true }).catch(() => {});
}
