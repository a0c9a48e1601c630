// A look at one file of the panel: while it is made, what there is of it; once it is delivered, what the server shows of it.
import { h, icon, safe } from "../dom.js";
import { dress } from "../times.js";
import { toast } from "../toast.js";
import { artifactKey } from "./reducer.js";

const AT_END = 24; // pixels from the end at which a reader still follows

export class Preview {
  /** `panel` offers page, close() and widen(), which says whether it is wide now. */
  constructor(root, panel) {
    Object.assign(this, { root, panel, looked: null });
    this.title = h("h3", { tabindex: "-1", dir: "auto" });
    this.version = h("span", { class: "preview-version muted small figures" });
    const wide = root.closest(".panel").classList.contains("is-wide");
    this.wider = h("button", { type: "button", class: "quiet small preview-wider", "aria-pressed": String(wide) }, "Wide");
    this.wider.addEventListener("click", () => this.wider.setAttribute("aria-pressed", String(panel.widen())));
    const close = h("button", { type: "button", class: "quiet round", title: "Close the preview", "aria-label": "Close the preview" }, icon("close"));
    close.addEventListener("click", () => panel.close());
    this.body = h("div", { class: "preview-body" });
    root.replaceChildren(h("div", { class: "preview-head" }, this.title, this.version, this.wider, close), this.body);
    root.addEventListener("htmx:afterSettle", ({ target }) => this.arrived(target));
    for (const name of ["htmx:responseError", "htmx:sendError"]) {
      root.addEventListener(name, () => toast("This could not be loaded. Look at your connection, then try again."));
    }
  }

  focus() {
    this.title.focus({ preventScroll: true });
    this.root.scrollIntoView({ block: "nearest" });
  }

  /** What is chosen, as it is by now; without anything it goes. */
  show(artifact, version) {
    const hadFocus = this.root.contains(document.activeElement);
    this.root.hidden = !artifact;
    const key = artifact && artifactKey(artifact);
    if (key !== this.key) this.body.replaceChildren(h("p", { class: "preview-loading muted small" }, "Loading…"));
    this.key = key;
    if (!artifact) {
      this.looked = null;
      if (hadFocus) this.root.closest(".panel").focus();
      return;
    }
    this.title.textContent = this.title.title = artifact.name || artifact.artifactId;
    this.version.textContent = version ? `v${version}` : "";
    if (artifact.making) this.soFar(artifact);
    else if (this.looked !== artifact) this.load(artifact);
  }

  soFar({ text }) {
    if (!this.sofar?.isConnected) {
      this.sofar = h("pre", { class: "preview-so-far", tabindex: "0", "aria-label": "What there is so far" });
      this.body.replaceChildren(this.sofar);
    }
    const { scrollHeight, scrollTop, clientHeight } = this.sofar;
    const follows = scrollHeight - scrollTop - clientHeight < AT_END;
    this.sofar.textContent = text || "Nothing to show yet.";
    if (follows) this.sofar.scrollTop = this.sofar.scrollHeight;
  }

  async load(artifact) {
    this.looked = artifact;
    const html = await fetched(artifact.look);
    if (this.looked !== artifact) return;
    if (html === null) return this.body.replaceChildren(this.failed(artifact));
    safe(this.body, html);
    this.body.querySelectorAll("time").forEach(dress);
    htmx.process(this.body);
  }

  failed(artifact) {
    const again = h("button", { type: "button", class: "small", onclick: () => this.load(artifact) }, "Try again");
    return h("p", { class: "error small", role: "alert" }, "The preview could not be loaded. ", again);
  }

  /** What the server showed in the place of something else. */
  arrived(element) {
    element.querySelectorAll("time").forEach(dress);
    if (element.matches(".signature")) this.panel.page.announce(element.querySelector(".signature-line").textContent.trim());
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
