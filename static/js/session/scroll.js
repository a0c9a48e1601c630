// The reader's place: at the end, which the page follows, or further up, where the text must not move.

const SHORT = 60; // items of a conversation that is completely in the page
const NEAR = 48; // px from the end that count as the end
const AHEAD = 1.5; // heights of the view that are ready above and below

export class End {
  window = null; // of a long conversation; a short one is completely in the page
  length = 0;

  /** `changed()` redraws; `older()` requests earlier items. */
  constructor(scroller, pill, { changed, older }) {
    Object.assign(this, { scroller, pill, changed, older, follows: true });
    this.list = scroller.querySelector("ol");
    scroller.addEventListener("scroll", () => this.look(), { passive: true });
    pill.addEventListener("click", () => {
      this.go();
      scroller.focus({ preventScroll: true });
    });
    // Growing content (a picture, a wider window) must not scroll the reader away from the end
    const sizes = new ResizeObserver(() => this.follows && this.toBottom());
    sizes.observe(scroller);
    sizes.observe(this.list);
  }

  /** The items to draw. */
  over(items) {
    this.length = items.length;
    this.lengthen(items.length).catch(() => {}); // the next change retries
    return this.window?.over(items, this.follows) ?? items;
  }

  /** From here on the conversation counts as long, if it has that many items. */
  async lengthen(count = Infinity) {
    if (this.window || count <= SHORT) return;
    const { Window } = await import("./window.js");
    this.window ??= new Window(this.length);
  }

  get isAtEnd() {
    return this.window?.isAtEnd ?? true;
  }

  look() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    const below = scrollHeight - scrollTop - clientHeight;
    this.follows = below < NEAR && this.isAtEnd;
    if (this.follows) this.pill.hidden = true;
    else if (scrollTop < AHEAD * clientHeight) this.up();
    else if (below < AHEAD * clientHeight && this.window?.down()) this.changed();
  }

  up() {
    if (this.window?.up()) this.changed();
    else this.older();
  }

  go() {
    const isFar = !this.isAtEnd;
    this.follows = true;
    this.pill.hidden = true;
    this.window?.toEnd();
    if (isFar) this.changed();
    this.toBottom();
  }

  toBottom() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  added() {
    this.pill.hidden = this.follows;
  }

  /** Run `change` without moving what the reader looks at; a reader at the end stays there. */
  keep(change) {
    const line = this.follows ? null : this.firstSeen();
    const before = line?.getBoundingClientRect().top;
    const had = document.activeElement;
    const hasFocus = () => this.scroller.contains(document.activeElement) && document.activeElement.checkVisibility();
    const hadFocus = this.scroller.contains(had);
    change();
    for (const next of [had, this.scroller]) if (hadFocus && !hasFocus()) next.focus({ preventScroll: true }); // it was redrawn
    if (this.follows) this.toBottom();
    else if (line?.isConnected) this.scroller.scrollTop += line.getBoundingClientRect().top - before;
  }

  topOf(line) {
    return line.getBoundingClientRect().top - this.scroller.getBoundingClientRect().top;
  }

  firstSeen() {
    const { top } = this.scroller.getBoundingClientRect();
    return [...this.list.children].find((line) => line.getBoundingClientRect().bottom > top);
  }
}
