// Replaces a page that is not available offline: lists the pages that are, and loads the page when the connection is back.
import { h } from "../dom.js";

const RETRY = 5000; // ms between checks of the connection

const again = () => location.reload();
document.getElementById("again").addEventListener("click", again);
addEventListener("online", again);
setInterval(async () => {
  const answer = await fetch("/healthz", { cache: "no-store" }).catch(() => null);
  if (answer?.ok) again();
}, RETRY);

const found = [];
for (const name of await caches.keys()) {
  if (!name.startsWith("pages-")) continue;
  const cache = await caches.open(name);
  for (const { url } of (await cache.keys()).toReversed()) {
    const page = new DOMParser().parseFromString(await (await cache.match(url)).text(), "text/html");
    found.push(h("li", {}, h("a", { href: url, dir: "auto" }, page.title.replace(/ · Parley$/, ""))));
  }
}
const list = document.getElementById("kept");
list.querySelector("ul").append(...found);
list.hidden = !found.length;
