// Following the conversation only while the reader is at its end; otherwise a pill leads there.

const NEAR = 48; // px from the end that still count as being there

export class End {
  constructor(scroller, pill) {
    Object.assign(this, { scroller, pill, follows: true });
    scroller.addEventListener("scroll", () => this.look(), { passive: true });
    pill.addEventListener("click", () => {
      this.go();
      scroller.focus({ preventScroll: true });
    });
    // What grows by itself (a picture that has loaded, a wider window) must not leave the reader behind.
    new ResizeObserver(() => this.follows && this.go()).observe(scroller);
  }

  look() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    this.follows = scrollHeight - scrollTop - clientHeight < NEAR;
    if (this.follows) this.pill.hidden = true;
  }

  go() {
    this.follows = true;
    this.pill.hidden = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  /** Something was added below. */
  added() {
    if (this.follows) this.go();
    else this.pill.hidden = false;
  }

  /** Run `change`, which adds something above what the reader looks at, without moving that. */
  keep(change) {
    const below = this.scroller.scrollHeight - this.scroller.scrollTop;
    change();
    this.scroller.scrollTop = this.scroller.scrollHeight - below;
  }
}
