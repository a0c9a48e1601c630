// The files that the agent made: opened, chosen and looked at. Beside the conversation, or over it on a narrow screen, where
// the conversation holds still meanwhile. The server lists them (`_files.html`, `files.js`), `unfinished.js` what is being made.
import { Preview } from "./preview.js";

const WIDTH = "panel-is-wide";
const narrow = matchMedia("(width < 1180px)"); // as in panel.css

const $ = (id) => document.getElementById(id);

export function start(page) {
  const panel = new Panel($("panel"), page);
  $("items").addEventListener("click", ({ target }) => {
    const chip = target.closest("[data-artifact]");
    if (chip) panel.show(chip.dataset.artifact);
  });
}

class Panel {
  constructor(root, page) {
    Object.assign(this, { root, page, opener: $("to-panel"), wider: $("preview-wider"), chosen: null });
    this.preview = new Preview($("preview"), page);
    this.widen(localStorage.getItem(WIDTH) === "yes");
    this.opener.addEventListener("click", () => this.open(this.opener));
    $("panel-close").addEventListener("click", () => this.close());
    $("preview-close").addEventListener("click", () => this.lookAway());
    this.wider.addEventListener("click", () => {
      this.widen(!root.classList.contains("is-wide"));
      localStorage.setItem(WIDTH, root.classList.contains("is-wide") ? "yes" : "no");
    });
    root.addEventListener("click", ({ target }) => {
      const { key } = target.closest(".artifact-open")?.dataset ?? {};
      if (key && key === this.chosen) this.lookAway();
      else if (key) this.show(key);
    });
    root.addEventListener("renewed", () => this.choose(this.chosen)); // its lines
    narrow.addEventListener("change", () => this.isOver && this.close());
    addEventListener("keydown", (event) => event.key === "Escape" && !event.defaultPrevented && this.leave());
    document.addEventListener("pointerdown", ({ target }) => {
      if (this.isOver && !root.contains(target)) this.close();
    });
  }

  widen(isWide) {
    this.root.classList.toggle("is-wide", isWide);
    this.wider.setAttribute("aria-pressed", String(isWide));
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

  // What is looked at

  /** The button of an artifact, by its key; while it becomes a delivered one, of what is being made. */
  lineOf(key) {
    return this.lines.find((line) => line.dataset.key === key);
  }

  get lines() {
    return [...this.root.querySelectorAll(".artifact-open")];
  }

  choose(key) {
    this.chosen = key;
    for (const line of this.lines) line.setAttribute("aria-pressed", String(line.dataset.key === key));
    this.preview.show(this.lineOf(key)?.dataset);
  }

  async show(key) {
    const from = document.activeElement;
    if (!this.lineOf(key)) await import("./files.js").then(({ renewFiles }) => renewFiles(), () => {}); // a new one
    if (!this.lineOf(key)) return this.page.complain("This file could not be found. Look at your connection, then try again.");
    this.lookedFrom = this.root.contains(from) ? null : from;
    if (narrow.matches && !this.isOver) this.open(from);
    this.choose(key);
    this.preview.focus();
  }

  lookAway() {
    const line = this.lineOf(this.chosen) ?? this.root;
    this.choose(null);
    (this.lookedFrom?.isConnected && !this.isOver ? this.lookedFrom : line).focus();
  }
}
