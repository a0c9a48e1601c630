// What a browser keeps of sessions: it may be thrown away at any time. Entries lie in blocks without gaps, {session, first,
// until, entries}; another user, or another format of entries, has another base (`device.js` clears them at a sign-out).

const AT_ONCE = 300; // entries that are given at once, on the way up

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

  /** Entries `first` to `until`, all that there are. */
  async keep(first, until, entries) {
    const { session } = this;
    const stores = await this.stores("readwrite");
    if (until >= first) stores?.blocks.put({ session, first, until, entries });
    stores?.sessions.put({ session, opened: Date.now() });
  }

  /** What was before index `before`, {first, entries}; null where that is not known. */
  async before(before) {
    let first = before;
    let entries = [];
    while (entries.length < AT_ONCE && first > 1) {
      const edge = first;
      const [block] = await this.blocks(edge - 1, 1);
      if (!block || block.first >= edge) break;
      entries = block.entries.filter(({ index }) => index < edge).concat(entries);
      first = block.first;
    }
    return first < before ? { first, entries } : null;
  }

  /** Those that end at an index or after it. */
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
      return null; // it was closed, because it is thrown away
    }
  }
}

const answer = (request) =>
  new Promise((done) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => done([]);
  });
