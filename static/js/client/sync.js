// All sessions of a person in the browser: a cache that may be deleted at any time, and its updates.

const PAGE = 100;

/** Where sessions are kept between visits; in memory if the browser stores nothing. */
export class Store {
  constructor(name) {
    this.memory = { sessions: new Map(), token: "" };
    this.base = new Promise((ready) => {
      const opening = globalThis.indexedDB?.open(name, 2); // the first version's sessions have no `rootId`
      if (!opening) return ready(null);
      opening.onupgradeneeded = () => {
        for (const kept of [...opening.result.objectStoreNames]) opening.result.deleteObjectStore(kept);
        opening.result.createObjectStore("sessions", { keyPath: "id" });
        opening.result.createObjectStore("about");
      };
      opening.onsuccess = () => ready(opening.result);
      opening.onerror = () => ready(null);
    }).catch(() => null);
  }

  async read() {
    const base = await this.base;
    if (!base) return this.memory;
    const reading = base.transaction(["sessions", "about"]);
    const [sessions, token] = await Promise.all([
      answer(reading.objectStore("sessions").getAll()),
      answer(reading.objectStore("about").get("token")),
    ]);
    return { sessions: new Map(sessions.map((session) => [session.id, session])), token: token ?? "" };
  }

  /** Keep the changes and the position after them, or neither. `anew`: delete everything else. */
  async write({ items, deleted = [], token, anew = false }) {
    const base = await this.base;
    if (!base) return this.remember({ items, deleted, token, anew });
    const writing = base.transaction(["sessions", "about"], "readwrite");
    const sessions = writing.objectStore("sessions");
    if (anew) sessions.clear();
    for (const session of items) sessions.put(session);
    for (const id of deleted) sessions.delete(id);
    writing.objectStore("about").put(token, "token");
    await new Promise((done, failed) => {
      writing.oncomplete = done;
      writing.onerror = writing.onabort = () => failed(writing.error);
    });
  }

  remember({ items, deleted, token, anew }) {
    const sessions = anew ? new Map() : this.memory.sessions;
    for (const session of items) sessions.set(session.id, session);
    for (const id of deleted) sessions.delete(id);
    this.memory = { sessions, token };
  }
}

const answer = (request) =>
  new Promise((done, failed) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });

/** Bring the store up to date; returns its sessions by id, and the position from which to follow. */
export async function sync(store) {
  let { token } = await store.read();
  for (let more = Boolean(token); more; ) {
    const changes = await get({ since: token, limit: PAGE }).catch((problem) => {
      if (problem.status === 422) return { reset: true }; // the token is no longer valid for us
      throw problem;
    });
    if (changes.reset) {
      token = "";
      break;
    }
    await store.write(changes);
    ({ token, more } = changes);
  }
  if (!token) await restore(store);
  return store.read();
}

/** Read everything. The position is from before the first page, so that later changes come with the next sync. */
async function restore(store) {
  const items = [];
  let token = "";
  let cursor = "";
  do {
    const page = await get({ limit: PAGE, archived: "all", ...(cursor ? { cursor } : {}) });
    items.push(...page.items);
    token ||= page.token;
    cursor = page.nextCursor;
  } while (cursor);
  await store.write({ items, token, anew: true });
}

async function get(query) {
  const response = await fetch(`/api/v1/sessions?${new URLSearchParams(query)}`);
  if (response.ok) return response.json();
  throw Object.assign(new Error(`The sessions could not be read (${response.status}).`), { status: response.status });
}
