// The files that the agent made: listed, looked at, downloaded. Beside the conversation, or over it on a narrow screen.
import { bytes, h, icon, kindOf, safe } from "../dom.js";
import { artifactKey } from "./reducer.js";

export class Panel {
  constructor(root) {
    this.root = root;
    this.list = root.querySelector("#artifacts");
    this.preview = root.querySelector("#preview");
    this.opener = document.getElementById("to-panel");
    this.chosen = null;
    this.artifacts = {};
    this.lines = new Map();
    this.opener.addEventListener("click", () => this.open());
    root.querySelector("#panel-close").addEventListener("click", () => this.close());
    addEventListener("keydown", (event) => event.key === "Escape" && this.isOver && this.close());
    document.addEventListener("pointerdown", ({ target }) => {
      if (this.isOver && !root.contains(target)) this.close();
    });
  }

  get isOver() {
    return this.root.classList.contains("is-open");
  }

  open() {
    this.root.classList.add("is-open");
    this.opener.setAttribute("aria-expanded", "true");
    this.root.focus();
  }

  close() {
    this.root.classList.remove("is-open");
    this.opener.setAttribute("aria-expanded", "false");
    this.opener.focus();
  }

  draw(artifacts) {
    if (artifacts === this.artifacts) return;
    this.artifacts = artifacts;
    const shown = Object.values(artifacts).sort((one, other) => other.firstEvent - one.firstEvent);
    const versions = versionsOf(shown);
    document.getElementById("file-count").textContent = shown.filter((one) => !one.making).length;
    this.opener.classList.toggle("has-none", !shown.length);
    document.getElementById("panel-nothing").hidden = shown.length > 0;
    this.drawLines(shown, versions);
    this.keepUp();
  }

  /** Each file keeps its element, and with it the focus that may be there. */
  drawLines(shown, versions) {
    const before = this.lines;
    this.lines = new Map();
    const elements = shown.map((artifact) => {
      const key = artifactKey(artifact);
      const now = [artifact, versions.get(artifact), this.chosen === key];
      const known = before.get(key);
      const element = known?.element ?? h("li", { class: "artifact" });
      if (!known || now.some((value, place) => value !== known.now[place])) this.fill(element, key, ...now);
      this.lines.set(key, { element, now });
      return element;
    });
    const inOrder = elements.every((element, place) => this.list.children[place] === element);
    if (!inOrder || this.list.children.length > elements.length) this.list.replaceChildren(...elements);
  }

  fill(element, key, artifact, version, isChosen) {
    const hadFocus = element.contains(document.activeElement);
    const part = artifact.parts[0];
    const parts = artifact.parts.length;
    const about = artifact.making
      ? ["being made", bytes(artifact.size)]
      : [part && kindOf(part.mediaType), bytes(part?.size), version && `v${version}`, parts > 1 && `${parts} parts`];
    element.replaceChildren(
      h(
        "button",
        {
          type: "button",
          class: "artifact-open",
          "aria-pressed": String(isChosen),
          onclick: () => this.choose(isChosen ? null : key),
        },
        icon(part?.mediaType.startsWith("image/") ? "picture" : "file"),
        h(
          "span",
          { class: "artifact-what" },
          h("span", { class: "name", title: artifact.description || artifact.name }, artifact.name || "File"),
          h("span", { class: "about figures" }, about.filter(Boolean).join(" · ")),
        ),
      ),
      ...(part?.href ? [download(part, artifact.name)] : []),
    );
    if (hadFocus) element.firstElementChild.focus();
  }

  choose(key) {
    this.chosen = key;
    this.looked = null;
    const artifacts = this.artifacts;
    this.artifacts = null;
    this.draw(artifacts);
  }

  show(key) {
    if (getComputedStyle(this.opener).display !== "none") this.open();
    this.choose(key);
    this.preview.scrollIntoView({ block: "nearest" });
  }

  /** What is chosen, as it is by now: its text while it is made, its preview once it is delivered. */
  async keepUp() {
    const artifact = this.artifacts[this.chosen];
    this.preview.hidden = !artifact;
    if (!artifact) return;
    if (artifact.making) return this.soFar(artifact);
    if (this.looked === artifact) return;
    this.looked = artifact;
    const head = h("div", { class: "preview-head" }, h("h3", {}, artifact.name || "File"));
    const looks = await Promise.all(artifact.parts.map((part) => look(part)));
    if (this.looked === artifact) this.preview.replaceChildren(head, ...looks.flat());
  }

  soFar({ name, text }) {
    const pre = h("pre", { class: "preview-so-far" }, text || "Nothing to show yet.");
    this.preview.replaceChildren(h("div", { class: "preview-head" }, h("h3", {}, name)), pre);
    pre.scrollTop = pre.scrollHeight;
  }
}

function download(part, name) {
  const label = `Download ${part.name || name || "file"}`;
  const away = part.elsewhere ? { target: "_blank", rel: "noopener noreferrer nofollow" } : { download: true };
  return h(
    "a",
    { class: "button quiet round", href: part.href, title: label, "aria-label": label, ...away },
    icon("download"),
  );
}

async function look(part) {
  try {
    const answer = await fetch(part.preview, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(String(answer.status));
    return [...safe(h("div"), await answer.text()).children];
  } catch {
    return [h("p", { class: "error small" }, "The preview could not be loaded. Try again, or download the file.")];
  }
}

/** v1, v2, … of artifacts with the same name; nothing for a name that stands alone. */
function versionsOf(shown) {
  const versions = new Map();
  const named = Map.groupBy(shown.filter((one) => !one.making), (one) => one.name);
  for (const group of named.values()) {
    if (group.length < 2) continue;
    group.forEach((artifact, place) => versions.set(artifact, group.length - place));
  }
  return versions;
}
