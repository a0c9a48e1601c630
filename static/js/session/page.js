// What the parts of a conversation's page share: its state, and the connection that brings the log.
import { Follower } from "../client/follow.js";
import { h } from "../dom.js";
import { begin, isBusy, reduce } from "./reducer.js";
import { End } from "./scroll.js";
import { View } from "./view.js";

const $ = (id) => document.getElementById(id);

export class SessionPage {
  constructor(beginning) {
    this.beginning = beginning;
    this.id = beginning.session;
    this.old = null; // set where the page was kept, and is out of date
    this.entries = beginning.entries; // of the log, as far back as the page goes
    this.first = beginning.first;
    this.listeners = { entries: [], drawn: [], line: [], stood: [], old: [] };
    this.state = this.reduced(beginning.last);
    this.view = new View($("items"));
    this.end = new End($("transcript"), $("to-end"), { changed: () => this.draw(), older: () => this.older() });
    $("earlier").addEventListener("click", () => this.end.up());
    addEventListener("hashchange", () => this.showLinked());
  }

  async prepare() {
    if (isBusy(this.state)) await this.view.loadWork().catch(() => {});
    await this.end.lengthen(this.state.items.length).catch(() => {});
  }

  /** Draw what there is, and follow the log from there. */
  async begin() {
    this.draw();
    this.opened = this.state.last;
    if ($("items").dataset.last > this.opened) await import("./cache.js").then(({ recall }) => recall(this), () => {});
    this.showLinked();
    this.line = new Follower({
      path: this.beginning.line,
      since: this.state.last,
      heard: (entries) => this.take(entries),
      said: ({ standing, entries }) => this.told(standing, entries),
      changed: (name) => this.lineIs(name),
    });
  }

  /** "entries" (new ones, once they are in the state), "drawn", "line" (its name), "stood", "old" (see `cache.js`). */
  on(name, listener) {
    this.listeners[name].push(listener);
  }

  tell(name, ...what) {
    for (const listener of this.listeners[name]) listener(...what);
  }

  announce(words) {
    $("announcer").append(h("p", {}, words));
  }

  complain(sentence) {
    this.composer.complain(sentence);
  }

  /** The <li> of an item, where it is drawn. */
  element(item) {
    return this.view.drawn.get(item.key)?.element ?? null;
  }

  /** How the session stands, as the server draws it: shown again with what is new. */
  told(standing, entries) {
    this.standing = standing ?? this.standing;
    if (standing && (this.old || entries.length)) this.stand();
  }

  async stand() {
    this.hasTurned = true;
    const { showStatus } = await import("./refresh.js").catch(() => ({})); // what turns next brings it again
    showStatus?.(this.standing, this.composer.words);
    this.tell("stood");
  }

  reduced(last) {
    const state = this.entries.reduce(reduce, begin(this.beginning.agent));
    state.last = Math.max(last, state.last);
    return state;
  }

  take(news) {
    const fresh = news.filter((entry) => this.takeOne(entry));
    if (!fresh.length) return;
    this.tell("entries", fresh);
    this.end.added();
    this.drawSoon();
  }

  takeOne(entry) {
    if (entry.index <= this.state.last) return false;
    this.entries.push(entry);
    reduce(this.state, entry);
    return true;
  }

  async older() {
    const { showOlder } = await import("./older.js");
    await showOlder(this);
  }

  async showLinked() {
    const [, index] = location.hash.match(/^#m-(\d+)$/) ?? [];
    if (index) await import("./older.js").then(({ showLinked }) => showLinked(this, Number(index)));
  }

  // Drawing: at most once a frame, and at once where nobody looks (a page in the background gets no frames)

  draw() {
    this.isDue = false;
    const { state, end, view } = this;
    end.keep(() => {
      view.draw({ ...state, items: end.over(state.items) });
      $("earlier").hidden = this.first <= 1 && !end.window?.from;
    });
    this.tell("drawn");
  }

  drawSoon() {
    if (this.isDue) return;
    this.isDue = true;
    if (document.hidden) setTimeout(() => this.draw(), 250);
    else requestAnimationFrame(() => this.draw());
  }

  lineIs(name) {
    if (name !== this.lineName) $("line-state").replaceChildren($(`line-${name}`)?.content.cloneNode(true) ?? "");
    this.tell("line", (this.lineName = name));
  }
}
