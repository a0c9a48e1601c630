// A look at one file of the panel: once it is delivered, what the server shows of it. While it is made, `unfinished.js` shows
// in the body what there is of it.
import { h, safe } from "../dom.js";
import { dress } from "../times.js";

export class Preview {
  constructor(root, page) {
    Object.assign(this, { root, page, look: "" }); // the address of what is shown
    [this.title, this.version, this.body] = root.querySelectorAll("h3, .preview-version, .preview-body");
    root.addEventListener("htmx:afterSettle", ({ target }) => this.arrived(target));
    for (const name of ["htmx:responseError", "htmx:sendError"]) root.addEventListener(name, complain);
  }

  focus() {
    this.title.focus({ preventScroll: true });
    this.root.scrollIntoView({ block: "nearest" });
  }

  /** What is chosen, as its line has it by now; without anything it goes. `looked` tells of what is being made. */
  show({ key = "", name = "", version, look = "" } = {}) {
    const { root } = this;
    const hadFocus = root.contains(document.activeElement);
    if (key !== root.dataset.key) this.body.replaceChildren(h("p", { class: "preview-loading muted small" }, "Loading…"));
    root.hidden = !key;
    root.dataset.key = key;
    if (hadFocus && !key) root.closest(".panel").focus();
    this.title.textContent = this.title.title = name;
    this.version.textContent = version ? `v${version}` : "";
    const isOther = look !== this.look;
    this.look = look;
    if (look && isOther) this.load(look);
    if (key && !look) root.dispatchEvent(new Event("looked"));
  }

  async load(look) {
    const html = await fetched(look);
    if (this.look !== look) return;
    if (html === null) return this.body.replaceChildren(this.failed(look));
    safe(this.body, html);
    this.arrived(this.body);
    htmx.process(this.body);
  }

  failed(look) {
    const again = h("button", { type: "button", class: "small", onclick: () => this.load(look) }, "Try again");
    return h("p", { class: "error small", role: "alert" }, "The preview could not be loaded. ", again);
  }

  /** What the server shows, also in the place of something else. */
  arrived(element) {
    element.querySelectorAll("time").forEach(dress);
    if (element.matches(".signature")) this.page.announce(element.querySelector(".signature-line").textContent.trim());
  }
}

async function fetched(address) {
  try {
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    return answer.ok && !answer.redirected ? await answer.text() : null;
  } catch {
    return null;
  }
}

async function complain() {
  const { toast } = await import("../toast.js").catch(() => ({}));
  toast?.("This could not be loaded. Look at your connection, then try again.");
}
