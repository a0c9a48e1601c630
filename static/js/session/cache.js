// Keeps sessions in this browser: the items of a page and later changes, when a turn ends, or when the person or the connection
// leaves during one. The cache may be deleted at any time. Changes are in blocks without gaps, {session, first, until, patch, isOpen}.
// Another user or format has another database (`device.js` deletes them when the user signs out).
import { itemOf } from "./state.js";

const QUIET = 1500; // ms without changes before they are written

/** From the first time on. */
export function start(page) {
  page.cache ??= new Cache(page);
}

class Cache {
  constructor(page) {
    this.kept = keptOf(page);
    this.until = page.first - 1;
    const { items, files, parts } = page.state;
    this.changed = new Set([...items.map(({ key }) => key), ...files.keys(), ...parts.keys()]);
    this.write(page.state);
    page.on("patched", ({ put = [], set = {}, drop = [] }) => {
      for (const key of [...put.map((item) => item.key), ...Object.keys(set), ...drop]) this.changed.add(key);
      clearTimeout(this.due);
      this.due = setTimeout(() => this.write(page.state), QUIET);
    });
    prune(this.kept);
    page.on("line", (name) => {
      if (name !== "gone") return;
      this.isGone = true;
      dropKept(this.kept);
    });
    addEventListener("pagehide", () => this.write(page.state));
  }

  write(state) {
    const { last, title, agent, open, ratings } = state;
    if (this.isGone || last <= this.until) return;
    const found = [...this.changed].map((key) => [key, itemOf(state, key)]);
    const put = found.filter(([, item]) => item && !item.pending).map(([, { steps, ...item }]) => item);
    const drop = found.filter(([, item]) => !item).map(([key]) => key);
    const patch = { index: last, put, drop, title: title ?? undefined, agent, open, ratings: { ...ratings } };
    this.kept.keep(this.until + 1, last, patch, open.length);
    this.changed.clear();
    this.until = last;
  }
}

const AT_ONCE = 100; // items given at once when scrolling up

export function keptOf(page) {
  return (page.kept ??= new Kept(page.id, page.beginning.format));
}

class Kept {
  constructor(session, format) {
    this.session = session;
    this.base = new Promise((ready) => {
      const opening = indexedDB.open(`sessions.${document.body.dataset.user}.${format}`, 1);
      opening.onupgradeneeded = () => {
        opening.result.createObjectStore("blocks", { keyPath: ["session", "until"] });
        opening.result.createObjectStore("sessions", { keyPath: "session" });
      };
      opening.onsuccess = ({ target: { result } }) => {
        result.onversionchange = () => result.close();
        ready(result);
      };
      opening.onerror = opening.onblocked = () => ready(null);
    }).catch(() => null);
  }

  /** What events `first` to `until` changed. `open`: the number of tasks that were unfinished then. */
  async keep(first, until, patch, open) {
    const { session } = this;
    const stores = await this.stores("readwrite");
    if (until >= first) stores?.blocks.put({ session, first, until, patch, isOpen: open > 0 });
    stores?.sessions.put({ session, opened: Date.now() });
  }

  /** What was before index `before`, {first, patch}; null if unknown, or if it may have changed since. */
  async before(before) {
    let first = before;
    const put = new Map();
    let ratings = {};
    while (put.size < AT_ONCE && first > 1) {
      const [block] = await this.blocks(first - 1, 1);
      if (!block || block.first >= first || block.isOpen) break;
      for (const item of block.patch.put) if (!put.has(item.key)) put.set(item.key, item);
      ratings = { ...block.patch.ratings, ...ratings };
      first = block.first;
    }
    const shown = new Set([...put.values()].filter(({ place }) => indexOf(place) >= first && indexOf(place) < before).map(({ key }) => key));
    const isShown = ({ key, of }) => shown.has(of ?? key);
    return first < before ? { first, patch: { put: [...put.values()].filter(isShown), ratings } } : null;
  }

  /** The blocks that end at an index or after it. */
  async blocks(until, most = undefined) {
    const stores = await this.stores("readonly");
    const range = IDBKeyRange.bound([this.session, until], [this.session, Infinity]);
    return stores ? answer(stores.blocks.getAll(range, most)) : [];
  }

  async stores(mode) {
    const base = await this.base;
    try {
      const work = base?.transaction(["blocks", "sessions"], mode);
      return work && { blocks: work.objectStore("blocks"), sessions: work.objectStore("sessions") };
    } catch {
      return null; // it was closed, because it is being deleted
    }
  }
}

/** The event that put an item in its place (`conversation.py`). */
const indexOf = (place) => Math.floor(place / 1000);

const answer = (request) =>
  new Promise((done) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => done([]);
  });

const MOST = 50; // sessions

async function prune(kept) {
  const stores = await kept.stores("readonly");
  const known = stores?.sessions.getAll() ?? {};
  known.onsuccess = () => {
    const newestFirst = known.result.sort((one, other) => other.opened - one.opened);
    for (const { session } of newestFirst.slice(MOST)) dropKept(kept, session);
  };
}

async function dropKept(kept, session = kept.session) {
  const stores = await kept.stores("readwrite");
  stores?.blocks.delete(IDBKeyRange.bound([session, 0], [session, Infinity]));
  stores?.sessions.delete(session);
}

const PATIENCE = 400; // ms in which the cache can help an opening page

/** A page that the service worker kept, and that is, or may be, out of date. */
export function startOld(page) {
  const { isAlone, isGone } = page.old;
  if (isAlone) recall(page);
  if (isGone) dropKept(keptOf(page));
  if (page.status) page.showStatus();
  page.tell("old");
}

/** Give a page the newer changes that the browser has. The page does not wait long; late ones are applied when they come. */
export async function recall(page) {
  const known = after(keptOf(page), page.state.last);
  const taken = known.then((patches) => {
    if (!patches.length) return;
    page.line?.drop();
    page.take(patches);
    page.opened = Math.max(page.opened, page.state.last);
    page.lacksFiles = true;
    page.line?.openFrom(page.state.last);
  });
  await Promise.race([taken, new Promise((done) => setTimeout(done, PATIENCE))]);
}

/** The changes after index `last`; nothing if unknown. */
async function after(kept, last) {
  const found = [];
  for (const { first, until, patch } of await kept.blocks(last + 1)) {
    if (first > last + 1) break;
    found.push(patch);
    last = until;
  }
  return found;
}
