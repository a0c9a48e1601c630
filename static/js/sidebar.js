// The lists of sessions on a page, live: the line says that something changed, and the server draws them again.
import { Follower } from "./client/follow.js";

export class Sidebar {
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
      if (target.id === "show-more") (await import("./redraw.js")).showMore(target);
    });
    new Follower({
      since: position,
      types: types.split(" "),
      heard: (events) => this.hear(events),
      changed: (name) => this.told(name),
    });
    const waiting = Number(element.querySelector(".recent").dataset.waiting);
    if (waiting) import("./waiting.js").then(({ show }) => show(waiting), () => {});
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
    if (name === "live" && dataset.line === "lost") this.renewSoon(); // what is no event may have changed too
    dataset.line = name;
  }

  /** `isMoved`: rows may leave their places. `atOnce`: whoever changed something here waits for nothing. */
  renewSoon(isMoved = true, atOnce = false) {
    import("./lists.js").then((lists) => lists.renewSoon(isMoved, atOnce), () => {}); // without a line the next word tries again
  }
}
