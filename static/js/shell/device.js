// The data that this browser keeps for the signed-in person. They are deleted when the person signs out or somebody else signs in.

const OWNER = "owner"; // in localStorage: the person whose data these are

/** On every signed-in page. */
export function keepFor(user) {
  const stays = () => (localStorage.getItem(OWNER) === user ? null : location.reload()); // the server's page names the person
  const owner = localStorage.getItem(OWNER);
  if (owner && owner !== user) forget();
  localStorage.setItem(OWNER, user);
  addEventListener("storage", ({ key }) => (key === OWNER || key === null ? stays() : null));
  addEventListener("pageshow", ({ persisted }) => (persisted ? stays() : null));
}

export async function forget() {
  localStorage.clear();
  const worker = await navigator.serviceWorker?.getRegistration();
  const subscription = await worker?.pushManager?.getSubscription().catch(() => null);
  await subscription?.unsubscribe().catch(() => {}); // what is sent for that person must not be shown to the next
  const pages = (await globalThis.caches?.keys())?.filter((name) => name.startsWith("pages-")) ?? [];
  const databases = (await indexedDB.databases?.()) ?? [];
  for (const name of pages) await caches.delete(name);
  for (const { name } of databases) indexedDB.deleteDatabase(name);
}

/** Tells the service worker, if the page may have one (TLS, or this machine), what it may have missed. */
export async function keepOffline() {
  const { serviceWorker } = navigator;
  if (!serviceWorker) return;
  const [{ workerStart }] = performance.getEntriesByType("navigation");
  await serviceWorker.register("/sw.js", { updateViaCache: "none" });
  const { active } = await serviceWorker.ready;
  const loaded = () => performance.getEntriesByType("resource").map(({ name }) => name);
  const tell = (...pages) => active.postMessage({ pages, loaded: loaded() });
  if (!workerStart) tell(location.href, `${location.origin}/`);
  document.addEventListener("visibilitychange", () => document.hidden && tell());
}
