// The files that the agent made: listed by name and version, looked at, downloaded. Beside the conversation, or over it
// on a narrow screen, where the conversation holds still meanwhile. The server drew what there was (`_files.html`).
import { bytes, h, icon } from "../dom.js";
import { kindOf } from "../kinds.js";
import { artifactKey } from "./reducer.js";

const WIDTH = "panel-is-wide";
const narrow = matchMedia("(width < 1180px)"); // as in panel.css

const $ = (id) => document.getElementById(id);

export function start(page) {
  const panel = new Panel($("panel"), page);
  const draw = () => panel.draw(page.state.artifacts);
  draw();
  page.on("drawn", draw);
  $("items").addEventListener("click", ({ target }) => {
    const chip = target.closest("[data-artifact]");
    if (chip) panel.show(chip.dataset.artifact);
  });
}

class Panel {
  constructor(root, page) {
    Object.assign(this, { root, page, list: $("artifacts"), opener: $("to-panel"), chosen: null, artifacts: {} });
    this.elements = new Map(); // of the artifacts by key: {element, now}
    this.shape = ""; // which artifacts stand under which names
    this.root.classList.toggle("is-wide", localStorage.getItem(WIDTH) === "yes");
    this.opener.addEventListener("click", () => this.open(this.opener));
    $("panel-close").addEventListener("click", () => this.close());
    narrow.addEventListener("change", () => this.isOver && this.close());
    addEventListener("keydown", (event) => event.key === "Escape" && !event.defaultPrevented && this.leave());
    document.addEventListener("pointerdown", ({ target }) => {
      if (this.isOver && !root.contains(target)) this.close();
    });
  }

  // Over the conversation, on a narrow screen

  get isOver() {
    return this.root.classList.contains("is-open");
  }

  open(from) {
    this.openedFrom = from;
    this.root.classList.add("is-open");
    this.opener.setAttribute("aria-expanded", "true");
    $("main").inert = true;
    this.root.focus();
  }

  close() {
    this.root.classList.remove("is-open");
    this.opener.setAttribute("aria-expanded", "false");
    $("main").inert = false;
    (this.openedFrom?.isConnected ? this.openedFrom : this.opener).focus();
  }

  /** Escape: out of the panel where it is over the conversation, otherwise out of what is looked at. */
  leave() {
    if (this.isOver) this.close();
    else if (this.chosen && this.root.contains(document.activeElement)) this.lookAway();
  }

  // The list

  draw(artifacts) {
    if (artifacts === this.artifacts) return;
    this.artifacts = artifacts;
    const shown = Object.values(artifacts).sort((one, other) => other.firstEvent - one.firstEvent);
    const ready = shown.filter((one) => !one.making).length;
    $("file-count").textContent = ready;
    $("panel-count").textContent = ready || "";
    $("panel-zip").hidden = ready < 2;
    $("panel-nothing").hidden = shown.length > 0;
    this.opener.classList.toggle("has-none", !shown.length);
    this.drawList(groupsOf(shown));
    this.preview?.show(artifacts[this.chosen], this.versionOf(this.chosen));
  }

  /** Each artifact keeps its element, and with it the focus that may be there. */
  drawList(groups) {
    const before = this.elements;
    this.elements = new Map();
    for (const group of groups) {
      const delivered = group.filter((one) => !one.making);
      for (const artifact of group) {
        const version = delivered.length > 1 && !artifact.making ? delivered.length - delivered.indexOf(artifact) : 0;
        this.drawOne(artifact, version, before);
      }
    }
    const shape = JSON.stringify(groups.map((group) => group.map(artifactKey)));
    if (shape !== this.shape) this.arrange(groups);
    this.shape = shape;
  }

  drawOne(artifact, version, before) {
    const key = artifactKey(artifact);
    const known = before.get(key);
    const now = [artifact, version, this.chosen === key];
    const element = known?.element ?? this.line(key);
    if (!known || now.some((value, place) => value !== known.now[place])) fill(element, ...now);
    this.elements.set(key, { element, now });
  }

  /** Its button stays the same whatever comes, so that who presses it while much comes has pressed it. */
  line(key) {
    const byServer = this.list.querySelector(`[data-key="${CSS.escape(key)}"]`);
    const open = byServer ?? h("button", { type: "button", class: "artifact-open" });
    open.addEventListener("click", () => (this.chosen === key ? this.lookAway() : this.show(key)));
    return byServer?.parentElement ?? h("div", { class: "artifact" }, open);
  }

  /** The newest of a name stands in the list, and the older ones are folded below it. */
  arrange(groups) {
    const focused = document.activeElement;
    const wereOpen = new Set([...this.list.querySelectorAll("details[open]")].map((older) => older.dataset.name));
    const lines = groups.map(([newest, ...older]) =>
      h("li", {}, this.elementOf(newest), older.length > 0 && this.folded(older, wereOpen.has(nameOf(newest)))),
    );
    this.list.replaceChildren(...lines);
    const fold = focused.matches("summary") && focused.parentElement.dataset.name;
    const back = fold ? this.list.querySelector(`[data-name="${CSS.escape(fold)}"] > summary`) : focused;
    if (this.list.contains(back)) back.focus();
  }

  folded(older, isOpen) {
    const words = `${older.length} older ${older.length === 1 ? "version" : "versions"}`;
    const summary = h("summary", { class: "small muted" }, icon("fold"), words);
    const lines = older.map((one) => h("li", {}, this.elementOf(one)));
    return h("details", { class: "older", open: isOpen, "data-name": nameOf(older[0]) }, summary, h("ul", { class: "plain" }, lines));
  }

  elementOf(artifact) {
    return this.elements.get(artifactKey(artifact)).element;
  }

  versionOf(key) {
    return this.elements.get(key)?.now[1] ?? 0;
  }

  // What is looked at

  choose(key) {
    this.chosen = key;
    const { artifacts } = this;
    this.artifacts = null;
    this.draw(artifacts);
  }

  async show(key) {
    const from = document.activeElement;
    this.lookedFrom = this.root.contains(from) ? null : from;
    if (narrow.matches && !this.isOver) this.open(from);
    this.choose(key);
    if (!this.preview) await this.load();
    this.preview?.focus();
  }

  lookAway() {
    const line = this.elements.get(this.chosen)?.element.querySelector("button") ?? this.root;
    this.choose(null);
    (this.lookedFrom?.isConnected && !this.isOver ? this.lookedFrom : line).focus();
  }

  async load() {
    try {
      const { Preview } = await import("./preview.js");
      this.preview ??= new Preview($("preview"), { page: this.page, close: () => this.lookAway(), widen: () => this.widen() });
      this.preview.show(this.artifacts[this.chosen], this.versionOf(this.chosen));
    } catch (problem) {
      if (!(problem instanceof TypeError)) throw problem;
      this.page.complain("The preview could not be loaded. Look at your connection, then try again.");
    }
  }

  widen() {
    localStorage.setItem(WIDTH, this.root.classList.toggle("is-wide") ? "yes" : "no");
    return this.root.classList.contains("is-wide");
  }
}

/** By name, the newest first in each; what was made last comes first, and what was made together in its own order. */
function groupsOf(shown) {
  const begun = new Map(shown.map(({ taskId, firstEvent }) => [taskId, firstEvent]));
  const groups = [...Map.groupBy(shown, nameOf).values()];
  return groups.sort(([one], [other]) => begun.get(other.taskId) - begun.get(one.taskId) || one.firstEvent - other.firstEvent);
}

function nameOf({ name, artifactId }) {
  return name || artifactId;
}

function fill(element, artifact, version, isChosen) {
  const { parts, making, isSigned } = artifact;
  const name = nameOf(artifact) || "File";
  const [open, before] = element.children;
  open.setAttribute("aria-pressed", String(isChosen));
  const seal = !making && isSigned && h("span", { class: "seal" }, icon("seal"), "Signed");
  open.replaceChildren(
    icon(parts[0]?.mediaType.startsWith("image/") ? "picture" : "file"),
    h(
      "span",
      { class: "artifact-what" },
      h("span", { class: "name", title: artifact.description || name }, name),
      h("span", { class: "about figures" }, aboutOf(artifact, version), seal),
    ),
  );
  if (!before && parts.length === 1 && parts[0].href) element.append(download(parts[0], name));
}

function aboutOf({ making, size, parts }, version) {
  if (making) return `being made · ${bytes(size)}`;
  const [part] = parts;
  const many = parts.length > 1 && `${parts.length} parts`;
  return [part && kindOf(part.mediaType), bytes(part?.size), version && `v${version}`, many].filter(Boolean).join(" · ");
}

function download(part, name) {
  const label = part.elsewhere ? `Open ${part.name || name} on another site` : `Download ${part.name || name}`;
  const away = part.elsewhere ? { target: "_blank", rel: "noopener noreferrer nofollow" } : { download: true };
  return h(
    "a",
    { class: "button quiet round", href: part.href, title: label, "aria-label": label, ...away },
    icon(part.elsewhere ? "open" : "download"),
  );
}
