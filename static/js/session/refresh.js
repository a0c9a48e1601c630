// Updates the parts of the page that the server draws. The status and the timeline come over the WebSocket, with the patches. The
// files and the queue are fetched again when something begins, waits or ends, and when the person comes back.
import { h, safe } from "../dom.js";
import { fetchDrawn, renewFiles } from "./files.js";

const timeline = document.getElementById("panel-timeline");
let shown = 0; // timelines that came over the WebSocket
let asked = 0; // how many of them there were when the page last fetched one

timeline.addEventListener("htmx:beforeRequest", () => (asked = shown));
timeline.addEventListener("htmx:beforeSwap", ({ detail }) => (detail.shouldSwap &&= asked === shown)); // otherwise it is older

export function start(page) {
  let isGone = false;
  const fetchFiles = async () => {
    page.lacksFiles = false; // the list of delivered files; unless that fails: then the next event retries
    page.lacksFiles = !(await renewFiles());
  };
  const renewLists = () => {
    if (!isGone && (page.old || document.querySelector("#queued li"))) renewQueue();
    if (!isGone && page.lacksFiles) fetchFiles();
  };
  const comeBack = () => {
    if (!isGone) htmx.trigger(timeline, "turned");
    renewLists();
  };
  page.on("patched", ({ files, open, put = [] }) => {
    if (files) fetchFiles();
    if (open || put.some(({ role }) => role === "user")) renewLists();
  });
  page.on("line", (name) => {
    isGone ||= name === "gone";
    if (name === "live") comeBack();
  });
  document.addEventListener("visibilitychange", () => document.hidden || comeBack());
  page.on("old", () => {
    page.lacksFiles = true;
    comeBack();
  });
  page.lacksFiles ||= Boolean(page.old);
  if (page.old) comeBack();
  else renewLists();
}

/** `#queued` gets "renewed", with the element that had the focus there. */
export async function renewQueue() {
  const list = document.getElementById("queued");
  const fresh = await fetchDrawn(list);
  if (!fresh) return;
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  for (const row of fresh.querySelectorAll("[data-id]")) {
    const known = list.querySelector(`[data-id="${row.dataset.id}"]`);
    if (known?.outerHTML === row.outerHTML || known?.querySelector("form")) row.replaceWith(known);
  }
  list.replaceChildren(...fresh.childNodes);
  if (focused?.isConnected) focused.focus({ preventScroll: true });
  list.dispatchEvent(new CustomEvent("renewed", { detail: focused }));
}

const ATTRIBUTES = ["hidden", "disabled", "title", "placeholder", "accept", "data-agent", "data-takes", "data-takes-words", "data-queues"];

/** Show the status of a page's session everywhere: in the head, the composer, the panel and the sidebar. */
export function showTurn({ id, status, timeline: drawn, sign, composer }) {
  showStatus(status, composer.words);
  if (drawn) {
    shown += 1;
    safe(timeline.querySelector(".drawn"), drawn);
  }
  if (sign) document.querySelector(`.recent [data-session="${id}"] > .sign`)?.replaceWith(safe(h("span"), sign).firstElementChild);
}

/**
 * Show a status (`_status.html`). The first class of each root names the page's element. Elements are updated in place and not
 * replaced, so that focus and a press survive.
 */
function showStatus(html, words) {
  const had = document.activeElement;
  for (const now of safe(h("div"), html).children) {
    const element = document.querySelector(`.${now.classList[0]}`);
    if (element) update(element, now);
    else console.warn(`The page has no .${now.classList[0]} for the status.`);
  }
  if (had !== document.body && !had.checkVisibility()) words.focus();
}

function update(element, now) {
  for (const name of ATTRIBUTES) {
    if (!now.hasAttribute(name)) element.removeAttribute(name);
    else if (element.getAttribute(name) !== now.getAttribute(name)) element.setAttribute(name, now.getAttribute(name));
  }
  const isAlike = element.tagName !== "SELECT" && now.children.length && element.children.length === now.children.length;
  if (isAlike) for (const [place, child] of [...now.children].entries()) update(element.children[place], child);
  else if (element.innerHTML !== now.innerHTML) element.replaceChildren(...now.childNodes);
}
