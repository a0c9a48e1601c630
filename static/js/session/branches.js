// ‹ 2/3 › at the messages where ways part. Each way is a session of its own; its name is a link.
import { h } from "../dom.js";
import { api } from "../requests.js";

const CAME_BY = "parley.branch"; // where the switcher led: there the focus goes on
const REST = 3000; // ms between two looks at what others did

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

  /** A fork that is made elsewhere says nothing in this session's log. */
  async look() {
    if (Date.now() - this.looked < REST) return;
    this.looked = Date.now();
    const answer = await fetch(`/sessions/${this.page.id}/ways`, { headers: { Accept: "application/json" } }).catch(() => null);
    if (!answer?.ok || answer.redirected) return;
    this.ways = await answer.json();
    this.draw();
  }

  /** What is said in a new fork comes a moment after it is there. */
  lookSoon() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => {
      this.looked = 0;
      this.look();
    }, 1000);
  }

  /** Alt and an arrow, on a message or in it. */
  pressed(event) {
    const step = event.altKey && { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
    const way = step && event.target.closest("li")?.querySelector(`.branches [rel=${step}]`);
    if (!way) return;
    event.preventDefault();
    if (way.href) way.click();
  }

  /** Whoever came by a switcher is at the same one again; the page itself takes them to the message. */
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

/** Whoever is at it by keyboard stays there. */
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

/** Keep in which branch one is. It need not be waited for, and may fail. */
function leave(href, rel) {
  const { pathname } = new URL(href, location.href);
  sessionStorage.setItem(CAME_BY, `${pathname} ${rel}`);
  const session = pathname.split("/").at(-1);
  api("PUT", `/sessions/${session}/leaf`, { leafId: session }, { keepalive: true }).catch(() => {});
}
