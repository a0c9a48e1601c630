// What the parts of a conversation's page share: the state that the log makes, and the line that brings the log.
import { Follower } from "../client/follow.js";
import { h } from "../dom.js";
import { End } from "./end.js";
import { learning } from "./lessons.js";
import { begin, isBusy, reduce } from "./reducer.js";
import { View } from "./view.js";

const NEXT = [{ type: "agent_token" }]; // what a task that goes on may tell of next
const REST = 2000; // ms until that is tried again which could not be loaded

const $ = (id) => document.getElementById(id);

export class SessionPage {
  /** `beginning` is what the server began the page with. */
  constructor(beginning) {
    this.beginning = beginning;
    this.id = beginning.session;
    this.old = null; // what is told of a page that was kept, and is old by now
    this.entries = beginning.entries; // of the log, as far back as the page goes
    this.first = beginning.first;
    this.held = []; // entries that came, in their order, and are not taken yet
    this.listeners = { entries: [], drawn: [], line: [], stood: [], old: [] };
    this.state = this.reduced(beginning.last);
    this.view = new View($("items"));
    this.end = new End($("transcript"), $("to-end"), { changed: () => this.draw(), older: () => this.older() });
    $("earlier").addEventListener("click", () => this.end.up());
    addEventListener("hashchange", () => this.showLinked());
  }

  /** Have at hand what is needed to draw what there is. */
  async prepare() {
    if (isBusy(this.state)) await this.foresee();
    await this.end.lengthen(this.state.items.length).catch(() => {});
  }

  /** Draw what there is, and follow the log from there. */
  async begin() {
    this.draw();
    this.opened = this.state.last;
    if ($("items").dataset.last > this.opened) await import("./old.js").then(({ recall }) => recall(this), () => {});
    this.showLinked();
    this.line = new Follower({
      path: this.beginning.line,
      since: this.state.last,
      heard: (entries) => this.take(entries),
      said: ({ standing, entries }) => this.told(standing, entries),
      changed: (name) => this.lineIs(name),
    });
  }

  /** Have at hand what is needed to show the next that comes. */
  async foresee() {
    await Promise.all([this.view.loadWork(), learning(NEXT)]).catch(() => {});
  }

  // What the parts of the page hear of each other

  /** "entries" (what is new, once it is in the state), "drawn", "line" (its name), "stood" (as it was said), "old" (see `old.js`). */
  on(name, listener) {
    this.listeners[name].push(listener);
  }

  tell(name, ...what) {
    for (const listener of this.listeners[name]) listener(...what);
  }

  /** Say something once to who listens to the page. */
  announce(words) {
    $("announcer").append(h("p", {}, words));
  }

  /** A sentence above where one writes. */
  complain(sentence) {
    this.composer.complain(sentence);
  }

  /** The <li> of an item, where it is drawn. */
  element(item) {
    return this.view.drawn.get(item.key)?.element ?? null;
  }

  /** How the session stands, as the server draws it. The page began with that: it is shown again with what is new. */
  told(standing, entries) {
    this.standing = standing ?? this.standing;
    if (standing && (this.old || entries.length)) this.stand();
  }

  async stand() {
    this.hasTurned = true;
    const { stand } = await import("./standing.js").catch(() => ({})); // what turns next brings it again
    stand?.(this.standing, this.composer.words);
    this.tell("stood");
  }

  // The state

  reduced(last) {
    const state = this.entries.reduce(reduce, begin(this.beginning.agent));
    state.last = Math.max(last, state.last);
    return state;
  }

  /** What comes while something is loaded that is needed to show it waits for that, and so does what comes after it. */
  take(news) {
    this.held.push(...news);
    return this.isLearning ? null : this.takeHeld();
  }

  async takeHeld() {
    for (let lesson; (lesson = learning(this.held)); ) {
      this.isLearning = true;
      await lesson.catch(() => new Promise((done) => setTimeout(done, REST)));
    }
    this.isLearning = false;
    const fresh = this.held.splice(0).filter((entry) => this.takeOne(entry));
    if (!fresh.length) return;
    this.tell("entries", fresh);
    this.end.added();
    this.drawSoon();
  }

  /** Whether it is new. */
  takeOne(entry) {
    if (entry.index <= this.state.last) return false;
    this.entries.push(entry);
    reduce(this.state, entry);
    return true;
  }

  // Further up

  async older() {
    const { showOlder } = await import("./older.js");
    await showOlder(this);
  }

  /** Go to the message that the address names. */
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
