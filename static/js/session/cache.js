// What a browser keeps of sessions, so that they are there at once, and without a line too. It may be thrown away at any
// time. Entries lie in blocks without gaps, {session, first, until, entries}; another user, or another format of entries,
// has another base (`device.js` clears them all at a sign-out).

const KEPT = 50; // sessions, those that were opened last
const AT_ONCE = 300; // entries that are given at once, on the way up
const PATIENCE = 400; // ms in which what was kept is of use to who opens a page
const QUIET = 1500; // ms without news before they are written
const PIECES = { agent_token_start: ["completed"], agent_token: ["completed"] }; // and when they are not needed any more
PIECES.artifact_update = ["completed", "failed", "rejected", "canceled"];

/**
 * The cache of a page's session; from the first time on it keeps what the page has, and what comes. That is when a turn is
 * over, or when the person or the line goes away in the middle of one.
 */
export function cacheOf(page) {
  page.cache ??= new Cache(page);
  return page.cache;
}

export const start = cacheOf;

/** Have a page take what it does not know. What is not there soon is not waited for, and taken when it is. */
export async function recall(page) {
  const known = cacheOf(page).after(page.state.last);
  await Promise.race([known.then((entries) => page.take(entries)), new Promise((done) => setTimeout(done, PATIENCE))]);
}

class Cache {
  constructor(page) {
    const { user } = document.body.dataset;
    const { format } = page.beginning;
    this.session = page.id;
    this.news = [];
    this.base = new Promise((ready) => {
      const opening = indexedDB.open(`sessions.${user}.${format}`, 1);
      opening.onupgradeneeded = () => {
        opening.result.createObjectStore("blocks", { keyPath: ["session", "until"] });
        opening.result.createObjectStore("sessions", { keyPath: "session" });
      };
      opening.onsuccess = () => {
        opening.result.onversionchange = () => opening.result.close();
        ready(opening.result);
      };
      opening.onerror = opening.onblocked = () => ready(null);
    }).catch(() => null);
    this.follow(page);
  }

  follow(page) {
    const { first, entries, state } = page;
    this.until = first - 1;
    this.news = entries.slice();
    this.write(state);
    page.on("entries", (fresh) => {
      for (const entry of fresh) this.news.push(entry);
      clearTimeout(this.due);
      this.due = setTimeout(() => this.write(page.state), QUIET);
    });
    page.on("line", (name) => name === "gone" && this.drop(this.session));
    addEventListener("pagehide", () => this.write(page.state));
    this.prune();
  }

  write({ tasks, last }) {
    const isWhole = ({ type, taskId }) => !PIECES[type]?.includes(tasks[taskId]?.state);
    this.keep(this.until + 1, last, this.news.splice(0).filter(isWhole));
    this.until = last;
  }

  /** Entries `first` to `until`, all that there are. */
  async keep(first, until, entries) {
    const stores = await this.stores("readwrite");
    if (until >= first) stores?.blocks.put({ session: this.session, first, until, entries });
  }

  /** What follows on index `last`; nothing, where nothing is known. */
  async after(last) {
    const found = [];
    for (const { first, until, entries } of await this.blocks(last + 1)) {
      if (first > last + 1) break;
      found.push(...entries.filter(({ index }) => index > last));
      last = until;
    }
    return found;
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

  async blocks(until, most = undefined) {
    const stores = await this.stores("readonly");
    return stores ? answer(stores.blocks.getAll(range(this.session, until), most)) : [];
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

  /** Forget the sessions that were opened longest ago. */
  async prune() {
    const stores = await this.stores("readwrite");
    if (!stores) return;
    stores.sessions.put({ session: this.session, opened: Date.now() });
    const known = await answer(stores.sessions.getAll());
    known.sort((one, other) => other.opened - one.opened);
    for (const { session } of known.slice(KEPT)) await this.drop(session);
  }

  async drop(session) {
    const stores = await this.stores("readwrite");
    stores?.blocks.delete(range(session, 0));
    stores?.sessions.delete(session);
  }
}

const range = (session, from) => IDBKeyRange.bound([session, from], [session, Infinity]);

const answer = (request) =>
  new Promise((done) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => done([]);
  });
