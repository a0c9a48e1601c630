// A session's log as the player has it: loaded in pages, and reduced once; from then on any event is a few steps away.
import "../session/extras.js";
import { artifactKey } from "../session/making.js";
import { begin, reduce } from "../session/reducer.js";
import "../session/streaming.js";
import "../session/turns.js";

const APART = 100; // events between two states that are kept
const AT_ONCE = 50; // events that are reduced before the page may do something else

export class Log {
  /** `beginning`: {entries (an address), last, agent}. `grown()` is called with each page that came. */
  constructor(beginning, grown) {
    Object.assign(this, { beginning, grown, entries: [], kept: [begin(beginning.agent)] });
    this.now = { index: 0, state: kept(this.kept[0]) };
  }

  /** How far it is loaded. Indexes have no gaps: entry number N is event N + 1. */
  get loaded() {
    return this.entries.length;
  }

  /** Load all of it. Throws what `fetch` throws; called again it goes on where it stopped. */
  async load() {
    while (this.loaded < this.beginning.last) {
      const answer = await fetch(`${this.beginning.entries}?after=${this.loaded}`);
      if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
      const { entries } = await answer.json();
      if (!entries.length) return;
      await this.reduceAll(entries);
      this.grown();
    }
  }

  /** Keep a state now and then, without holding the page up. */
  async reduceAll(entries) {
    let state = this.end ?? kept(this.kept[0]);
    for (let number = 0; number < entries.length; number += AT_ONCE) {
      for (const entry of entries.slice(number, number + AT_ONCE)) {
        state = reduce(state, entry);
        this.entries.push(entry);
        if (this.loaded % APART === 0) this.kept.push(kept(state));
      }
      await new Promise((done) => setTimeout(done));
    }
    this.end = state;
  }

  /** The session as it was after event `index`: from where it is now, or from the nearest state that was kept. */
  at(index) {
    const nearest = Math.floor(index / APART);
    const isAhead = this.now.index <= index && this.now.index >= nearest * APART;
    const from = isAhead ? this.now.index : nearest * APART;
    const start = isAhead ? this.now.state : kept(this.kept[nearest]);
    this.now = { index, state: this.entries.slice(from, index).reduce(reduce, start) };
    return this.now.state;
  }

  entry(index) {
    return this.entries[index - 1];
  }

  /** What was delivered, by its key. */
  artifact(key) {
    return this.entries.flatMap(({ artifacts = [] }) => artifacts).find((one) => artifactKey(one) === key);
  }
}

/** A state of its own: what goes on from it changes nothing in the other, as what is in its lists is never changed. */
function kept(state) {
  const copy = (value) => {
    if (Array.isArray(value)) return value.slice();
    if (value instanceof Map) return new Map(value);
    if (value instanceof Set) return new Set(value);
    return value && Object.getPrototypeOf(value) === Object.prototype ? { ...value } : value;
  };
  return Object.fromEntries(Object.entries(state).map(([name, value]) => [name, copy(value)]));
}
