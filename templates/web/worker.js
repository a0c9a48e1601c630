// The service worker: what was read stays readable without a line. Whatever goes wrong in here, the network answers.
const FILES = "files-{{ version }}"; // of Parley; no person's
const PAGES = "pages-{{ version }}"; // as somebody saw them: gone with their sign-in
const OFFLINE = "{% url 'web:offline' %}";
const KEPT = {{ kept|safe }};
const MOST_PAGES = 60;
const PATIENCE = 4000; // ms that the network may take where there is a page to show

const FILE = /^\/static\/.+\.[0-9a-f]{12}\.\w+$/;
const PAGE = /^\/($|agents(\/[^/]+)?$|inbox$|tasks\/[^/]+$|sessions\/[^/]+(\/(tree|replay))?$)/;
const SESSION = /^\/sessions\/[^/]+$/; // its live line brings it up to date
const NOTHING_SHOWN = 'id="items"></ol>'; // in session.html
const SIGNING = /\/(sign-in|sign-out|login\/|logout\/)$/;

let keeping = null; // what was shown last, on its way into the cache

addEventListener("install", (event) => {
  skipWaiting();
  event.waitUntil(caches.open(FILES).then((cache) => cache.addAll([OFFLINE, ...KEPT])));
});

addEventListener("activate", (event) => event.waitUntil(takeOver()));

async function takeOver() {
  const old = (await caches.keys()).filter((name) => /^(files|pages)-/.test(name) && name !== FILES && name !== PAGES);
  await Promise.all(old.map((name) => caches.delete(name)));
  await clients.claim();
}

addEventListener("fetch", (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  if (origin !== location.origin) return;
  const open = (answer) => event.respondWith(answer.catch(() => fetch(request)));
  if (request.method === "POST" && SIGNING.test(pathname)) {
    const forget = () => Promise.resolve(keeping).then(() => caches.delete(PAGES)).catch(() => {});
    // Once more when it is done: a page that was on its way is the one of who was here before.
    event.respondWith(forget().then(() => fetch(request)).finally(forget));
  }
  if (request.method !== "GET") return;
  if (FILE.test(pathname)) open(file(request));
  else if (request.mode === "navigate" && PAGE.test(pathname)) open(page(event, patienceFor(request, pathname)));
});

/** Who loads a session again wants it from the server. */
function patienceFor({ cache }, pathname) {
  return SESSION.test(pathname) && cache !== "no-cache" && cache !== "reload" ? 0 : PATIENCE;
}

addEventListener("message", (event) => {
  const { keep: addresses, shown } = event.data;
  if (shown) event.waitUntil((keeping = keepShown(shown).catch(() => {})));
  else event.waitUntil(keepAll(addresses));
});

/** A page tells what it is made of that came before this worker was there. */
async function keepAll(addresses) {
  clients.claim();
  for (const address of addresses) {
    if (FILE.test(new URL(address).pathname)) file(new Request(address)).catch(() => {});
    else if (PAGE.test(new URL(address).pathname)) refreshed(new Request(address)).catch(() => {});
  }
}

/** A conversation tells what it showed when it was left: its page begins with that until its script draws it. */
async function keepShown({ address, html }) {
  const kept = await caches.match(address, { cacheName: PAGES, ignoreVary: true });
  const page = (await kept?.text())?.replace(NOTHING_SHOWN, () => `id="items" inert>${html}</ol>`);
  if (page) await (await caches.open(PAGES)).put(address, new Response(page, kept));
}

addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(clients.openWindow(event.notification.data.href));
});

async function file(request) {
  const cache = await caches.open(FILES);
  const kept = await cache.match(request.url);
  if (kept) return kept;
  const answer = await fetch(request);
  if (answer.ok) cache.put(request.url, answer.clone()).catch(() => {});
  return answer;
}

async function page(event, patience) {
  const fresh = refreshed(event.request);
  event.waitUntil(fresh.catch(() => {}));
  await keeping;
  const kept = await caches.match(event.request.url, { cacheName: PAGES, ignoreVary: true });
  if (kept && !patience) return kept;
  if (!kept) return fresh.catch(() => caches.match(OFFLINE, { cacheName: FILES }).then((shown) => shown ?? Response.error()));
  const late = new Promise((done) => setTimeout(done, patience, kept));
  return Promise.race([fresh, late]).catch(() => kept);
}

/** The page as the server has it, kept for later. One that leads elsewhere leads to the sign-in: whoever read is gone. */
async function refreshed(request) {
  const answer = await fetch(request);
  if (answer.status >= 502 && answer.status <= 504) throw new Error("nobody is there behind the proxy");
  if (answer.redirected || answer.type === "opaqueredirect") await caches.delete(PAGES);
  else if (answer.ok || answer.status === 404) keep(request.url, answer.clone()).catch(() => {});
  return answer;
}

async function keep(address, answer) {
  const cache = await caches.open(PAGES);
  await cache.delete(address);
  if (answer.ok && answer.headers.get("Content-Type")?.startsWith("text/html")) await cache.put(address, answer);
  const [oldest, ...others] = await cache.keys();
  if (others.length >= MOST_PAGES) await cache.delete(oldest);
}
