// The service worker: pages that were read stay readable offline. If anything fails in here, the network answers.
const FILES = "files-{{ version }}"; // files of Parley, nothing personal
const PAGES = "pages-{{ version }}"; // as a person saw them: deleted with the sign-in
const OFFLINE = "{% url 'web:offline' %}";
const KEPT = {{ kept|safe }};
const MOST_PAGES = 60;
const PATIENCE = 4000; // ms that the network may take if there is a kept page
const SOON = 300; // ms that it may take for the list of sessions
const PAINT = 400; // ms for painting a kept page, before the server is asked for a newer one

const FILE = /^\/static\/.+\.[0-9a-f]{12}\.\w+$/;
const PAGE = /^\/($|agents(\/[^/]+)?$|inbox$|tasks\/[^/]+$|sessions\/[^/]+(\/(tree|replay))?$)/;
const SESSION = /^\/sessions\/[^/]+$/; // its live connection updates it
const SHOWN = /id="items"[^>]*>(<\/ol>|[^]*?<\/ol><!--shown-->)/; // in session.html, or what replaced it
const NOTHING_SHOWN = 'id="items"></ol>';
const FILES_LISTED = /(id="artifacts"[^>]*>)[^]*?(<\/ul><\/div>)/; // also in session.html
const PASSING = /nonce="[^"]*"|name="csrfmiddlewaretoken" value="[^"]*"|data-position="[^"]*"/g; // differs between pages that say the same
const SAYS = "x-says"; // the header of a kept page; equal for pages that say the same
const TASK = /^\/sessions\/[^/]+\/task$/; // redirects to a task's page
const SHARE = "{% url 'web:share-target' %}"; // where other apps share words and files
const SIGNING = /\/(sign-in|sign-out|login\/|logout\/|set-password|settings\/data\/delete|settings\/workspaces\/choose)$/;

const GONE = "gone"; // the text of a page that no longer exists

let keeping = Promise.resolve(); // pages are written to the cache one after the other, because each reads what is there
let era = 0; // of pages: a request from before a sign-out is not kept after it

addEventListener("install", (event) => {
  skipWaiting();
  // Browsers that can read the cache without this worker do so: a page has many files, and its first paint waits.
  if (FILE.test(KEPT[0])) event.addRoutes?.({ condition: { urlPattern: { pathname: "/static/*" } }, source: { cacheName: FILES } });
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
    const forget = () => {
      era += 1;
      return keeping.then(() => caches.delete(PAGES)).catch(() => {});
    };
    // Once more at the end: a page that was being fetched belongs to the previous user.
    event.respondWith(forget().then(() => fetch(request)).finally(forget));
  }
  if (request.method === "POST" && pathname === SHARE) event.respondWith(keepShared(request));
  if (request.method !== "GET") return;
  if (FILE.test(pathname)) open(file(request));
  else if (request.mode === "navigate" && PAGE.test(pathname)) open(page(event, patienceFor(request, pathname)));
  else if (request.mode === "navigate" && TASK.test(pathname)) open(fetch(request).catch(instead));
});

/** Who loads a page again wants it from the server. A session, and the list of them, bring themselves up to date. */
function patienceFor({ cache }, pathname) {
  if (cache === "no-cache" || cache === "reload") return PATIENCE;
  return SESSION.test(pathname) ? 0 : pathname === "/" ? SOON : PATIENCE;
}

addEventListener("message", (event) => {
  const { shown } = event.data;
  if (!shown) return event.waitUntil(keepAll(event.data));
  event.waitUntil(inTurn(() => keepShown(shown)));
  if (shown.isNews) event.waitUntil(keepFresh(shown.address).catch(() => {}));
});

/** A page tells what it loaded, and which pages did not come from here: itself, and the one that people go on to. */
async function keepAll({ pages, loaded }) {
  clients.claim();
  const are = (kind) => (address) => kind.test(new URL(address).pathname);
  for (const address of loaded.filter(are(FILE))) file(new Request(address)).catch(() => {});
  for (const address of pages.filter(are(PAGE))) keepFresh(address).catch(() => {});
}

/**
 * A conversation tells what it showed when it was left, up to index `last`: its page begins with that until its script draws
 * it. With other `files` than the server drew it says something else than the server does.
 */
async function keepShown({ address, html, files, last }) {
  const began = era;
  const kept = await caches.match(address, { cacheName: PAGES, ignoreVary: true });
  const listed = (before, begin, end) => (files === undefined ? before : begin + files + end);
  const said = html.replaceAll("<!--shown-->", "&lt;!--shown-->"); // as a browser may write it in an attribute
  const put = () => `id="items" data-last="${last}"${html ? " inert" : ""}>${said}</ol><!--shown-->`;
  // Messages may contain any text, so the list of files is searched outside them.
  const page = (await kept?.text())?.replace(SHOWN, NOTHING_SHOWN).replace(FILES_LISTED, listed).replace(SHOWN, put);
  if (!page || began !== era) return;
  const headers = [...kept.headers].filter(([name]) => files === undefined || name !== SAYS);
  await (await caches.open(PAGES)).put(address, new Response(page, { headers }));
}

/** What the server sends while no page is open. A page that shows the session needs none, but browsers want one for each push. */
addEventListener("push", (event) => {
  const { title, body, tag, href } = event.data?.json() ?? { title: "Parley", href: "/inbox" };
  event.waitUntil(registration.showNotification(title, { body, tag, data: { href } }));
});

addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(openPage(new URL(event.notification.data.href, location.origin).href));
});

async function openPage(address) {
  const pages = await clients.matchAll({ type: "window", includeUncontrolled: true });
  const shown = pages.find(({ url }) => url.split("#")[0] === address);
  return shown ? shown.focus() : clients.openWindow(address);
}

/** Words and files wait in the cache of pages, which a sign-out empties, for the composer of the page that opens. */
async function keepShared(request) {
  const cache = await caches.open(PAGES);
  await cache.put(SHARE, new Response(await request.formData()));
  return Response.redirect("/?shared", 303);
}

async function file(request) {
  const cache = await caches.open(FILES);
  const kept = await cache.match(request.url);
  if (kept) return kept;
  const answer = await fetch(request);
  if (answer.ok) cache.put(request.url, answer.clone()).catch(() => {});
  return answer;
}

async function page(event, patience) {
  const { url } = event.request;
  const began = era;
  const early = patience ? fetched(event.request) : null;
  early?.catch(() => {}); // handled below
  await keeping;
  const kept = await caches.match(url, { cacheName: PAGES, ignoreVary: true });
  const isShown = kept && !patience;
  const fresh = early ?? (isShown ? pause(PAINT) : Promise.resolve()).then(() => fetched(event.request));
  const says = fresh.then((answer) => keep(url, answer.clone(), began, !patience)).catch(() => null);
  event.waitUntil(says);
  if (!kept) return fresh.catch(instead);
  const shown = isShown ? kept : await Promise.race([fresh, pause(patience, kept)]).catch(() => kept);
  if (shown === kept) event.waitUntil(tellOld(event, kept.headers.get(SAYS), says));
  return shown;
}

const pause = (time, then) => new Promise((done) => setTimeout(done, time, then));

/** What is shown in place of a page that is not here. */
async function instead() {
  return (await caches.match(OFFLINE, { cacheName: FILES })) ?? Response.error();
}

/** A page that does not say what the server would by now, as far as that can be known, is told so; also where there is none. */
async function tellOld({ request, resultingClientId }, said, says) {
  const now = await says;
  if (now && now === said) return;
  const opened = await clients.get(resultingClientId);
  const those = opened ? [opened] : (await clients.matchAll()).filter(({ url }) => url.split("#")[0] === request.url.split("#")[0]);
  for (const one of those) one.postMessage({ old: true, isAlone: now === null, isGone: now === GONE });
}

/** The page as the server has it. */
async function fetched(request) {
  const answer = await fetch(request);
  if (answer.status >= 502 && answer.status <= 504) throw new Error("nobody is there behind the proxy");
  return answer;
}

async function keepFresh(address) {
  const began = era;
  await keep(address, await fetched(new Request(address)), began, SESSION.test(new URL(address).pathname));
}

/**
 * Gives what the page says, null where that is not known. An answer that leads elsewhere leads to the sign-in: whoever read is
 * gone. `withShown`: it begins with what was shown, as the one before it did.
 */
async function keep(address, answer, began, withShown) {
  const isElsewhere = answer.redirected || answer.type === "opaqueredirect";
  if (isElsewhere) {
    era += 1;
    await inTurn(() => caches.delete(PAGES));
  }
  const isPage = !isElsewhere && answer.ok && answer.headers.get("Content-Type")?.startsWith("text/html");
  const html = isPage ? await answer.text() : "";
  const says = isPage ? await digest(html) : GONE;
  const headers = [...answer.headers, [SAYS, says]];
  let isKept = false;
  await inTurn(async () => {
    if (began !== era || !(isPage || answer.status === 404)) return;
    const cache = await caches.open(PAGES);
    const before = withShown && (await (await cache.match(address, { ignoreVary: true }))?.text());
    const shown = before && before.match(SHOWN)?.[0];
    await cache.delete(address);
    if (isPage) await cache.put(address, new Response(shown ? html.replace(SHOWN, () => shown) : html, { headers }));
    const [oldest, ...others] = await cache.keys();
    if (others.length >= MOST_PAGES) await cache.delete(oldest);
    isKept = true;
  });
  return isKept ? says : null;
}

/** Each change of what is kept reads what is there, and waits for the one before it. */
function inTurn(change) {
  return (keeping = keeping.then(change).catch(() => {}));
}

async function digest(html) {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(html.replace(PASSING, "")));
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16)).join();
}
