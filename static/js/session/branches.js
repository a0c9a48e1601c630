// The switcher ‹ 2/3 › at branch points. Each branch is a session of its own and a link.
import { h } from "../dom.js";
import { api } from "../requests.js";

const CAME_BY = "parley.branch"; // the target of the switcher: it gets the focus
const REST = 3000; // ms between two checks for forks made elsewhere

export function start(page) {
  new Branches(page);
}

class Branches {
  constructor(page) {
    Object.assign(this, { page, ways: page.beginning.branches ?? {}, looked: 0 });
    page.on("drawn", () => this.draw());
    page.on("entries", (fresh) => fresh.some(({ type }) => type === "edit") && this.lookSoon());
    document.addEventListener("visibilitychange", () => document.hidden || this.look());
    addEventListener("pageshow", ({ persisted }) => persisted && this.look());
    document.addEventListener("sessions-heard", ({ detail }) => detail.some(({ type }) => type === "fork") && this.lookSoon());
    document.getElementById("items").addEventListener("keydown", (event) => this.pressed(event));
    this.draw();
    this.arrive();
    this.look();
  }

  draw() {
    for (const { item, element } of this.page.view.drawn.values()) {
      const parting = item.kind === "message" && item.index ? this.ways[item.index] : null;
      const known = element.querySelector(".meta > .branches");
      const said = parting ? `${parting.place}/${parting.ways.length}` : "";
      if ((known?.dataset.said ?? "") === said) continue;
      const fresh = parting && switcher(parting, said);
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
      (here?.querySelector(`.branches [rel=${rel}][href]`) ?? here?.querySelector(".branches [href]"))?.focus();
    };
    const moved = ({ target }) => target.matches("li") && focus();
    list.addEventListener("focusin", moved);
    setTimeout(() => list.removeEventListener("focusin", moved), REST);
    focus();
  }
}

/** Keeps the keyboard focus. */
function exchange(known, fresh) {
  const { rel } = known.contains(document.activeElement) ? document.activeElement : {};
  known.replaceWith(fresh);
  if (rel) (fresh.querySelector(`[rel=${rel}][href]`) ?? fresh.querySelector("[href]")).focus({ preventScroll: true });
}

function switcher({ place, ways }, said) {
  const way = (rel, sign, name, href) => {
    const go = () => leave(href, rel);
    if (!href) return h("span", { class: "branch-step", rel, "aria-hidden": "true" }, sign);
    return h("a", { class: "branch-step", rel, href, "aria-label": name, title: name, onclick: go }, sign);
  };
  return h(
    "span",
    { class: "branches", role: "group", "aria-label": `Branch ${place} of ${ways.length}`, "data-said": said },
    way("prev", "‹", "Previous branch", ways[place - 2]),
    h("span", { class: "figures", "aria-hidden": "true" }, said),
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
