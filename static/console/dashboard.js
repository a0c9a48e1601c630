/* The dashboard renews itself: only what changed is replaced. It asks every few seconds, less often where the server needs
   long, and not while its tab is hidden. */

import { setChildren } from "../js/place.js";
import { drawCharts } from "./charts.js";
import { tellTimes } from "./console.js";

const EVERY = 5000; // milliseconds
const SHARE = 20; // of the time may be the server's: 1 in so many
const LONGEST = 60000;

const parts = document.querySelector("[data-dashboard]");
const line = document.querySelector("[data-line]");
const news = document.querySelector("[data-news]"); // which screen readers read aloud
let timer = 0;
let failures = 0;
let isAsking = false;

function say(state, text) {
  line.dataset.line = state;
  if (line.textContent !== text) line.textContent = text;
}

async function renew() {
  if (isAsking || document.hidden) return;
  isAsking = true;
  clearTimeout(timer);
  const begun = performance.now();
  try {
    const response = await fetch(parts.dataset.dashboard, { redirect: "manual", signal: AbortSignal.timeout(LONGEST) });
    if (response.type === "opaqueredirect" || response.status === 403) {
      say("lost", "You are signed out. Reload the page to sign in.");
      return;
    }
    if (!response.ok) throw new Error(String(response.status));
    show(await response.text());
    failures = 0;
    say("live", "Live");
  } catch {
    failures += 1;
    say("lost", "The connection is lost. Trying again…");
  } finally {
    isAsking = false;
  }
  const took = performance.now() - begun;
  timer = setTimeout(renew, Math.min(LONGEST, Math.max(EVERY * 2 ** Math.min(failures, 4), took * SHARE)));
}

function show(html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  const now = Date.now(); // the same for both, so that what did not change is equal
  tellTimes(fresh.content, now);
  tellTimes(parts, now);
  const known = new Set(banners().map((one) => one.id));
  replace(parts, fresh.content);
  drawCharts(parts);
  const fresher = banners().filter((one) => !known.has(one.id));
  if (fresher.length) news.textContent = fresher.map((one) => one.querySelector("p").textContent.trim()).join(" ");
}

const banners = () => [...parts.querySelectorAll("[data-banner]")];

/** Make `old` have the children of `fresh`; charts stay, and get new numbers. */
function replace(old, fresh) {
  const known = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
  const wanted = [...fresh.children].map((child) => {
    const kept = known.get(child.id);
    if (!kept) return child;
    if (kept.matches(".chart-grid, .table-grid, .banners")) replace(kept, child);
    else if (kept.matches("figure") && kept.querySelector("canvas") && child.querySelector("canvas")) renumber(kept, child);
    else if (!kept.isEqualNode(child)) swap(kept, child);
    return kept;
  });
  setChildren(old, wanted);
}

function renumber(figure, fresh) {
  for (const chosen of ["figcaption", "script", "details > :not(summary)"]) {
    const [old, next] = [figure.querySelector(chosen), fresh.querySelector(chosen)];
    if (old && next && !old.isEqualNode(next)) swap(old, next);
  }
  const label = fresh.querySelector("canvas").getAttribute("aria-label");
  figure.querySelector("canvas").setAttribute("aria-label", label);
}

/** Replace the content; the focus stays on the same link or part. */
function swap(old, fresh) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const place = focused && [...old.querySelectorAll("a, button, summary, [tabindex]")].indexOf(focused);
  const scrolls = [...old.querySelectorAll(".panel-scroll")].map((one) => one.scrollLeft);
  old.replaceChildren(...fresh.childNodes);
  old.querySelectorAll(".panel-scroll").forEach((one, number) => { one.scrollLeft = scrolls[number] ?? 0; });
  if (focused) [...old.querySelectorAll("a, button, summary, [tabindex]")][place]?.focus({ preventScroll: true });
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) renew();
});
say("live", "Live");
timer = setTimeout(renew, EVERY);
