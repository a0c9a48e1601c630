// Keeps sessions in this browser: the entries of a page and later ones, when a turn ends, or when the person or the connection
// leaves during one. The cache may be deleted at any time. Entries are in blocks without gaps, {session, first, until, entries}.
// Another user or entry format has another database (`device.js` deletes them when the user signs out).

const QUIET = 1500; // ms without new entries before they are written
const PIECES = new Set(["agent_token_start", "agent_token", "artifact_update"]); // not needed once their task has ended
const ENDED = ["completed", "failed", "rejected", "canceled"];

/** From the first time on. */
export function start(page) {
  page.cache ??= new Cache(page);
}

class Cache {
  constructor(page) {
    this.kept = keptOf(page);
    this.until = page.first - 1;
    this.news = page.entries.slice();
    this.write(page.state);
    page.on("entries", (fresh) => {
      for (const entry of fresh) this.news.push(entry);
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

  write({ tasks, last }) {
    if (this.isGone) return;
    const isWhole = ({ type, taskId }) => !PIECES.has(type) || !ENDED.includes(tasks[taskId]?.state);
    this.kept.keep(this.until + 1, last, this.news.splice(0).filter(isWhole));
    this.until = last;
  }
}

const AT_ONCE = 300; // entries given at once when scrolling up

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

  /** Entries `first` to `until`, all that exist. */
  async keep(first, until, entries) {
    const { session } = this;
    const stores = await this.stores("readwrite");
    if (until >= first) stores?.blocks.put({ session, first, until, entries });
    stores?.sessions.put({ session, opened: Date.now() });
  }

  /** The entries before index `before`, {first, entries}; null if unknown. */
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

/** Give a page the newer entries that the browser has. The page does not wait long; late entries are added when they come. */
export async function recall(page) {
  const known = after(keptOf(page), page.state.last);
  const taken = known.then(async (entries) => {
    await page.take(entries);
    page.opened = Math.max(page.opened, entries.at(-1)?.index ?? 0);
  });
  await Promise.race([taken, new Promise((done) => setTimeout(done, PATIENCE))]);
}

/** The entries after index `last`; nothing if unknown. */
async function after(kept, last) {
  const found = [];
  for (const { first, until, entries } of await kept.blocks(last + 1)) {
    if (first > last + 1) break;
    found.push(...entries.filter(({ index }) => index > last));
    last = until;
  }
  return found;
}
