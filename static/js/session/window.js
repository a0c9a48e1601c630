// The items of a conversation that are in the page: in a long one, those around the reader.

const MOST = 200; // items in the page at a time
const FIRST = 60; // at first, for a quick start
const STEP = 50; // how many items come and go when the reader scrolls

export class Window {
  from = 0;

  /** `length`: the number of items, all of which were in the page until now. */
  constructor(length) {
    this.to = this.length = length;
  }

  get isAtEnd() {
    return this.to === this.length;
  }

  /** The items to draw. Adds new ones at the end, and removes the oldest if the reader `follows` the end. */
  over(items, follows) {
    if (!this.length) this.from = Math.max(0, items.length - FIRST);
    if (this.isAtEnd || this.to > items.length) this.to = follows ? items.length : Math.min(items.length, this.from + MOST);
    this.length = items.length;
    if (this.to - this.from > MOST) this.from = this.to - MOST + STEP;
    return items.slice(this.from, this.to);
  }

  /** That many items were added before the others. */
  shift(count) {
    this.from += count;
    this.to += count;
    this.length += count;
  }

  toEnd() {
    this.to = this.length;
    this.from = Math.min(Math.max(this.from, this.to - MOST + STEP), this.to);
  }

  around(place) {
    this.from = Math.max(0, place - STEP);
    this.to = Math.min(this.length, place + STEP);
  }

  /** Whether there was something to add above or below. */
  up() {
    if (!this.from) return false;
    this.from = Math.max(0, this.from - STEP);
    this.to = Math.min(this.to, this.from + MOST);
    return true;
  }

  down() {
    if (this.isAtEnd) return false;
    this.to = Math.min(this.length, this.to + STEP);
    this.from = Math.max(this.from, this.to - MOST);
    return true;
  }
}
