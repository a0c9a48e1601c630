// The panel of files: opening, choosing and viewing. It is beside the conversation, or over it on a narrow screen; then the
// conversation does not scroll. The server lists and shows files (`files.js`); `making.js` shows those in progress.
import { localizeTime } from "../format.js";

const WIDTH = "panel-is-wide";
const narrow = matchMedia("(width < 1180px)"); // same as in panel.css

const $ = (id) => document.getElementById(id);

export const start = (page) => new Panel($("panel"), $("preview"), page);

class Panel {
  chosen = ""; // the key of the open file; its line may be missing for a while
  look = ""; // the address of its preview, once it is delivered

  constructor(root, preview, page) {
    Object.assign(this, { root, preview, page, opener: $("to-panel") });
    [this.title, this.version, this.body] = preview.querySelectorAll("h3, .preview-version, .preview-body");
    this.fit(false);
    for (const place of [root, $("items")]) place.addEventListener("click", ({ target }) => this.pressed(target.closest("button")));
    this.opener.addEventListener("click", () => this.open(this.opener));
    root.addEventListener("renewed", () => this.choose(this.chosen)); // its lines
    narrow.addEventListener("change", () => !narrow.matches && this.isOver && this.close());
    addEventListener("keydown", (event) => event.key === "Escape" && !event.defaultPrevented && this.leave());
    document.addEventListener("pointerdown", ({ target }) => this.isOver && !root.contains(target) && this.close());
    preview.addEventListener("htmx:afterSwap", ({ target }) => this.arrived(target));
  }

  pressed(button) {
    const { id, dataset: { key, artifact } = {} } = button ?? {};
    if (id === "panel-close") this.close();
    else if (id === "preview-wider") localStorage.setItem(WIDTH, this.widen() ? "yes" : "no");
    else if (id === "preview-again") this.again();
    else if (id === "preview-close" || (key && key === this.chosen)) this.lookAway();
    else if (key ?? artifact) this.show(key ?? artifact);
  }

  /** Returns whether it is now wide; without an argument it toggles. */
  widen(isWide) {
    return ($("preview-wider").ariaPressed = this.root.classList.toggle("is-wide", isWide));
  }

  /** Wide while the open file wants room, unless the reader chose a width. */
  fit(wantsRoom) {
    const own = localStorage.getItem(WIDTH);
    this.hasRoom = wantsRoom;
    this.widen(own ? own === "yes" : wantsRoom);
  }

  /** A document or page in a frame, or a table that is cut off at its side. */
  get wantsRoom() {
    const isCut = ({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1;
    return !!this.body.querySelector(".preview-frame") || [...this.body.querySelectorAll(".preview-scroll")].some(isCut);
  }

  // Over the conversation, on a narrow screen

  get isOver() {
    return this.root.classList.contains("is-open");
  }

  set isOver(isOver) {
    this.root.classList.toggle("is-open", isOver);
    this.opener.ariaExpanded = $("main").inert = isOver;
  }

  open(from) {
    this.openedFrom = from;
    this.isOver = true;
    this.root.focus();
  }

  close() {
    this.isOver = false;
    (this.openedFrom.isConnected ? this.openedFrom : this.opener).focus();
  }

  /** Escape: closes the panel if it is over the conversation, otherwise the open file. */
  leave() {
    if (this.isOver) this.close();
    else if (this.chosen && this.root.contains(document.activeElement)) this.lookAway();
  }

  // The open file

  get lines() {
    return [...this.root.querySelectorAll(".artifact-open")];
  }

  /** The button of an artifact, by its key; before delivery, that of the file in progress. */
  lineOf(key) {
    return this.lines.find((line) => line.dataset.key === key);
  }

  async show(key) {
    const from = document.activeElement;
    if (!this.lineOf(key)) await import("./files.js").then(({ renewFiles }) => renewFiles(), () => {}); // a new one
    if (!this.lineOf(key)) return this.page.complain("This file could not be found. Check your connection, then try again.");
    this.lookedFrom = this.root.contains(from) ? null : from;
    if (narrow.matches && !this.isOver) this.open(from);
    this.choose(key);
    this.focus();
    this.preview.scrollIntoView({ block: "nearest" });
  }

  lookAway() {
    const line = this.lineOf(this.chosen) ?? this.root;
    this.choose("");
    (this.lookedFrom?.isConnected && !this.isOver ? this.lookedFrom : line).focus();
  }

  /** Show a file in its current state; without a line show none. */
  choose(key) {
    const { root, preview, title, look: before } = this;
    const line = this.lineOf(key);
    const { name = "", version = "", look = "" } = line?.dataset ?? {};
    if (!line && preview.contains(document.activeElement)) root.focus();
    this.chosen = key;
    const isOther = key !== preview.dataset.key;
    if (isOther) this.body.replaceChildren();
    if (isOther) this.hasRoom = false; // but as wide as before until its preview is there
    if (!look) this.fit(false);
    for (const one of this.lines) one.ariaPressed = one === line;
    preview.dataset.key = line ? key : "";
    preview.hidden = !line;
    title.textContent = title.title = name;
    this.version.textContent = version;
    this.look = look;
    if (look && look !== before) this.load();
    if (line && !look) preview.dispatchEvent(new Event("looked"));
  }

  /** Ignore answers that come after another file was opened. */
  async load() {
    const place = document.createElement("div");
    this.body.append(place);
    await htmx.ajax("GET", this.look, { source: place, swap: "outerHTML settle:0s" }).catch(() => {});
    if (place.isConnected) this.body.replaceChildren($("preview-failed").content.cloneNode(true));
  }

  again() {
    this.focus();
    this.body.replaceChildren();
    this.load();
  }

  focus() {
    this.title.focus({ preventScroll: true });
  }

  /** The server's preview replaces the content so far, or a verified signature. */
  arrived(element) {
    const before = this.body.querySelector(":scope > .preview-so-far");
    if (before && before === document.activeElement) this.focus();
    before?.remove();
    this.fit(this.hasRoom || this.wantsRoom);
    element.querySelectorAll("time").forEach(localizeTime);
    if (element.matches(".signature:has([open])")) this.page.announce(element.querySelector("summary").textContent.trim());
  }
}
