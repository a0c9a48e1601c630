// Files in progress: listed above delivered ones. The open one shows its content so far.
import { h, icon } from "../dom.js";
import { count } from "./files.js";

const AT_END = 24; // pixels from the end within which the view follows

const $ = (id) => document.getElementById(id);

export function start(page) {
  const unfinished = new Unfinished($("making"), $("artifacts"), $("preview"));
  const draw = () => {
    const { files, items } = page.state;
    unfinished.draw([...files.values(), ...items.filter(({ isMaking }) => isMaking)].filter(({ isListed }) => isListed));
  };
  page.on("patched", ({ files = [] }) => {
    for (const taskId of files) unfinished.deliver(taskId);
  });
  page.on("drawn", draw);
  $("artifacts").addEventListener("renewed", () => {
    unfinished.delivered.clear();
    draw();
  });
  draw();
}

const artifactKey = ({ taskId, artifactId }) => `${taskId}/${artifactId}`;

class Unfinished {
  constructor(list, ready, preview) {
    Object.assign(this, { list, ready, preview, items: new Map(), made: new Map() }); // by key: elements, and what they show
    this.delivered = new Set(); // finished files, which stay until they are listed as delivered, so that nothing jumps
    preview.addEventListener("looked", () => this.drawSoFar());
  }

  deliver(taskId) {
    for (const key of this.items.keys()) if (key.startsWith(`${taskId}/`)) this.delivered.add(key);
  }

  draw(artifacts) {
    this.made = new Map(artifacts.map((artifact) => [artifactKey(artifact), artifact]));
    const over = [...this.items.keys()].filter((key) => !this.made.has(key) && !this.delivered.has(key));
    const begun = artifacts.filter((artifact) => !this.items.has(artifactKey(artifact)));
    over.forEach((key) => this.remove(key));
    begun.sort((one, other) => one.place - other.place).forEach((artifact) => this.add(artifact));
    for (const [key, { about }] of this.made) {
      const shown = this.items.get(key).querySelector(".about"); // not if its line is already among the delivered ones
      if (shown) shown.textContent = `In progress · ${about}`;
    }
    this.drawSoFar();
    if (!over.length && !begun.length) return;
    count();
    this.list.dispatchEvent(new Event("renewed", { bubbles: true }));
  }

  /** The newest is first. */
  add(artifact) {
    const { name } = artifact;
    const key = artifactKey(artifact);
    const words = [h("span", { class: "name", title: name }, name), h("span", { class: "about figures" })];
    const about = { type: "button", class: "artifact-open", "data-key": key, "data-name": name, "aria-pressed": "false" };
    const line = h("button", about, icon("file"), h("span", { class: "artifact-what" }, words));
    this.items.set(key, h("li", {}, h("div", { class: "artifact" }, line)));
    this.list.prepend(this.items.get(key));
  }

  remove(key) {
    const item = this.items.get(key);
    const hadFocus = item.contains(document.activeElement);
    item.remove();
    this.items.delete(key);
    if (!hadFocus) return;
    const lines = [...this.ready.querySelectorAll(".artifact-open")];
    (lines.find(({ dataset }) => dataset.key === key) ?? this.list.closest(".panel")).focus();
  }

  drawSoFar() {
    const artifact = this.made.get(this.preview.dataset.key);
    const body = this.preview.querySelector(".preview-body");
    let shown = body.querySelector(".preview-so-far");
    if (!artifact || (shown && artifact === this.shown)) return;
    this.shown = artifact;
    if (!shown) {
      shown = h("pre", { class: "preview-so-far", tabindex: "0", "aria-label": "Content so far" });
      body.replaceChildren(shown);
    }
    const follows = shown.scrollHeight - shown.scrollTop - shown.clientHeight < AT_END;
    shown.textContent = artifact.text || "Nothing to show yet.";
    if (follows) shown.scrollTop = shown.scrollHeight;
  }
}
