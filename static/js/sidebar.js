// The lists of sessions on a page, live: the line says that something changed, and the server draws them again.
import { Follower } from "./client/follow.js";

export class Sidebar {
  constructor(element) {
    Object.assign(this, { element, isLost: false });
    const { user, position, types } = element.dataset;
    this.deleting = `parley.deleting.${user}`;
    this.elsewhere = new BroadcastChannel(`parley.marks.${user}`); // other tabs
    this.elsewhere.onmessage = ({ data }) => this.renewSoon(data);
    document.addEventListener("sessions-changed", ({ detail }) => {
      this.elsewhere.postMessage(detail?.isMoved ?? true);
      if (!detail?.isShown) this.renewSoon(detail?.isMoved, true);
    });
    document.addEventListener("visibilitychange", () => document.hidden || this.renewSoon());
    addEventListener("storage", ({ key }) => key === this.deleting && this.renewSoon());
    element.addEventListener("click", async ({ target }) => {
      if (target.id === "show-more") (await import("./redraw.js")).showMore(target);
    });
    this.follow(position, types.split(" "));
    const waiting = Number(element.querySelector(".recent").dataset.waiting);
    if (waiting) import("./waiting.js").then(({ show }) => show(waiting), () => {});
    navigator.serviceWorker?.addEventListener("message", ({ data }) => data.old && this.renewSoon());
  }

  follow(since, types) {
    this.line = new Follower({
      since,
      types,
      heard: (events) => this.hear(events),
      changed: (name) => this.told(name),
    });
  }

  hear(events) {
    const told = events.filter(({ payload }) => !payload?.progress);
    if (!told.length) return;
    document.dispatchEvent(new CustomEvent("sessions-heard", { detail: told }));
    this.lists().then((lists) => lists.hear(told), () => {});
  }

  told(name) {
    this.element.dataset.line = name;
    const wasLost = this.isLost;
    this.isLost = name === "lost";
    if (name === "live" && wasLost) this.renewSoon(); // what is no event may have changed too
  }

  /** `isMoved`: rows may leave their places. `atOnce`: whoever changed something here waits for nothing. */
  renewSoon(isMoved = true, atOnce = false) {
    this.lists().then((lists) => lists.renewSoon(isMoved, atOnce), () => {}); // without a line the next word tries again
  }

  lists() {
    return import("./lists.js");
  }
}
