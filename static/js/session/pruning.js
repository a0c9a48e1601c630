// Forgetting what was kept of sessions (`kept.js`): of those that were kept longest ago, and of one that is gone.

const MOST = 50; // sessions

export async function prune(kept) {
  const stores = await kept.stores("readonly");
  const known = stores?.sessions.getAll() ?? {};
  known.onsuccess = () => {
    const newestFirst = known.result.sort((one, other) => other.opened - one.opened);
    for (const { session } of newestFirst.slice(MOST)) drop(kept, session);
  };
}

export async function drop(kept, session = kept.session) {
  const stores = await kept.stores("readwrite");
  stores?.blocks.delete(IDBKeyRange.bound([session, 0], [session, Infinity]));
  stores?.sessions.delete(session);
}
