// What the modules of a conversation's page share: its state, and the connection that brings its patches.
import { Follower } from "../client/follow.js";
import { h } from "../dom.js";
import { End } from "./scroll.js";
import { apply, begin, isBusy } from "./state.js";
import { View } from "./view.js";

const $ = (id) => document.getElementById(id);

export class SessionPage {
  constructor(beginning) {
    this.beginning = beginning;
    this.id = beginning.session;
    this.old = null; // set if the page was kept and is out of date
    this.first = beginning.first; // event on the page
    this.patches = []; // that came while earlier messages were being read
    this.said = []; // what a screen reader has yet to say
    this.listeners = { patched: [], drawn: [], line: [], status: [], old: [] };
    this.state = apply(begin(beginning.agent), beginning.patch);
    this.view = new View($("items"));
    this.end = new End($("transcript"), $("to-end"), { changed: () => this.draw(), older: () => this.older() });
    $("earlier").addEventListener("click", () => this.end.up());
    addEventListener("hashchange", () => this.showLinked());
    addEventListener("pagehide", () => this.keepPlace());
  }

  async prepare() {
    const hasMade = this.state.items.some(({ kind }) => kind === "made");
    const needed = [isBusy(this.state) && this.view.loadWork(), hasMade && this.view.loadMade()];
    await Promise.allSettled(needed);
    if (isBusy(this.state)) this.loadRefresh();
    await this.end.lengthen(this.state.items.length).catch(() => {});
  }

  /** Draw the page, and follow the log from there. */
  async begin() {
    this.draw();
    this.opened = this.state.last;
    if ($("items").dataset.last > this.opened) await import("./cache.js").then(({ recall }) => recall(this), () => {});
    this.showLinked();
    this.showKept();
    this.line = new Follower({
      path: this.beginning.line,
      since: this.state.last,
      heard: (patches) => this.take(patches),
      said: (word) => this.told(word),
      changed: (name) => this.lineIs(name),
    });
  }

  /** Events: "patched" (with the patch, once it is in the state), "drawn", "line" (its name), "status", "old" (see `cache.js`). */
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

  /** The <li> of an item, if drawn. */
  element(item) {
    return this.view.drawn.get(item.key)?.element ?? null;
  }

  /** The session's status as the server sends it, in HTML. The first one is on the page already. */
  told({ status, timeline, sign, patch, people, mayWrite }) {
    if (mayWrite === this.composer.form.hidden) import("./role.js").then(({ showRole }) => showRole(this, mayWrite), () => {});
    if (people) import("./people.js").then(({ showPeople }) => showPeople(people), () => {});
    if (status === undefined) return;
    Object.assign(this, { status, timeline, sign });
    if (!status || !(this.old || patch)) return;
    this.isTurned = this.hasTurned = true;
    this.drawSoon();
  }

  /** In the same frame as the patch. */
  showStatus() {
    this.isTurned = false;
    this.hasTurned = true;
    if (!this.refresh) return void this.loadRefresh().then(() => this.refresh && this.showStatus());
    this.refresh.showTurn(this);
    this.tell("status");
  }

  /** Loaded early, while there is a connection. */
  async loadRefresh() {
    this.refresh = await import("./refresh.js").catch(() => null); // the next status loads it again
  }

  take(patches) {
    for (const patch of patches) {
      if (patch.index <= this.state.last) continue;
      apply(this.state, patch);
      if (this.isReading) this.patches.push(patch);
      this.said.push(...(patch.said ?? []));
      this.lacksFiles ||= Boolean(patch.files);
      this.tell("patched", patch);
      this.end.added();
      this.drawSoon();
    }
  }

  async older() {
    const { showOlder } = await import("./older.js");
    await showOlder(this);
  }

  async showLinked() {
    const [, index] = location.hash.match(/^#m-(\d+)$/) ?? [];
    if (index) await import("./older.js").then(({ showLinked }) => showLinked(this, Number(index)));
  }

  /** Where this tab comes back to: a message, and how far it is from the top; nothing at the end. */
  keepPlace() {
    const { end, state, id } = this;
    const isSeen = (line) => line && end.topOf(line) + line.offsetHeight > 0;
    const item = end.follows ? null : state.items.find((one) => one.index && isSeen(this.element(one)));
    const kept = item && { index: item.index, top: end.topOf(this.element(item)) };
    if (kept) sessionStorage.setItem(`place:${id}`, JSON.stringify(kept));
    else sessionStorage.removeItem(`place:${id}`);
  }

  async showKept() {
    const kept = sessionStorage.getItem(`place:${this.id}`);
    if (kept && !location.hash) await import("./older.js").then(({ showKept }) => showKept(this, JSON.parse(kept)), () => {});
  }

  // Drawing: at most once per frame, and at once in a background page, which gets no frames

  draw() {
    this.isDue = false;
    const { state, end, view } = this;
    end.keep(() => {
      view.draw({ ...state, items: end.over(state.items), follows: end.follows });
      $("earlier").hidden = this.first <= 1 && !end.window?.from;
    });
    if (this.isTurned) this.showStatus();
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
