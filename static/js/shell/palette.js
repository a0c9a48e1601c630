// The palette: finds sessions by title at once, then what the server finds by ids and words. The same dialog chooses the agent of
// a new session: the page hears "agent-chosen".
import { Store, sync } from "../client/sync.js";
import { takes } from "../compose/intake.js";
import { h, icon } from "../dom.js";
import { shortTime } from "../format.js";
import { api, Unreachable } from "../requests.js";
import { agentsFor, foundFor } from "./agents.js";

const PATIENCE = 160; // ms to wait for further typing
const MOST = 7; // of each kind
const MODES = {
  find: { name: "Search", asks: "Search sessions, messages, agents, people or an id", look: find, without: "Only sessions known to this browser are listed." },
  agents: { name: "Choose an agent", asks: "Search agents by name or skill", look: choose, run: chosen, without: "Try again in a moment." },
};

const store = new Store(`parley.sessions.${document.querySelector(".sidebar").dataset.user}`);
let synced = null; // when all sessions were read
let conversations = []; // one for a session and its branches
let palette = null;

/** Searches for what was already typed. `mode`: the name of one of MODES, or another one. */
export function open(mode) {
  palette ??= new Palette(document.getElementById("palette"));
  palette.open(MODES[mode] ?? mode);
}

class Palette {
  constructor(dialog) {
    this.dialog = dialog;
    [this.field, this.list, this.state] = dialog.querySelectorAll("input, .palette-list, .palette-state");
    this.field.addEventListener("input", () => this.typed());
    this.field.addEventListener("keydown", (event) => this.pressed(event));
    this.list.addEventListener("click", (event) => this.clicked(event));
    dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close()); // the page beside it
    dialog.addEventListener("close", () => this.cut?.abort());
    addEventListener("online", () => dialog.open && this.isLost && this.typed());
  }

  open(mode) {
    this.mode = mode;
    this.list.setAttribute("aria-label", mode.name);
    this.field.setAttribute("aria-label", mode.asks);
    this.field.placeholder = mode.asks;
    this.field.focus();
    this.list.replaceChildren();
    this.look();
  }

  typed() {
    this.isMoved = false; // new results are chosen from their beginning
    this.cut?.abort();
    this.cut = null; // what comes for older words is not shown any more
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.look(), PATIENCE);
    if (this.mode.look === find) this.show(atOnce(this.field.value), true);
  }

  /** Request matches for the current text; earlier requests are dropped. */
  async look() {
    this.cut?.abort();
    const cut = (this.cut = new AbortController());
    this.isLost = false;
    try {
      await this.mode.look(this.field.value.trim(), (groups, isMore) => cut === this.cut && this.show(groups, isMore), cut.signal);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.isLost = true;
      const why = problem instanceof TypeError || problem instanceof Unreachable ? "The server cannot be reached." : problem.message; // a browser's own words say less
      this.state.textContent = `${why} ${this.mode.without}`;
    }
  }

  show(groups, isMore) {
    const chosen = this.options.find((one) => one.getAttribute("aria-selected") === "true")?.dataset.href;
    const drawn = groups.filter(({ options }) => options.length).map(({ name, options }) => {
      const head = h("span", { class: "palette-kind", "aria-hidden": "true" }, name);
      return h("div", { role: "group", "aria-label": name }, head, ...options);
    });
    this.list.replaceChildren(...drawn);
    this.options.forEach((one, at) => (one.id = `palette-${at}`));
    const count = this.options.length;
    this.choose(Math.max(0, this.options.findIndex((one) => this.isMoved && one.dataset.href === chosen)));
    this.state.textContent = isMore ? "Searching…" : count ? `${count} ${count === 1 ? "result" : "results"}` : "No results. Try other words.";
  }

  get options() {
    return [...this.list.querySelectorAll("[role=option]")];
  }

  choose(at) {
    this.options.forEach((one, place) => one.setAttribute("aria-selected", String(place === at)));
    const chosen = this.options[at];
    if (chosen) this.field.setAttribute("aria-activedescendant", chosen.id);
    else this.field.removeAttribute("aria-activedescendant");
    chosen?.scrollIntoView({ block: "nearest" });
  }

  pressed(event) {
    const { options } = this;
    const now = options.findIndex((one) => one.getAttribute("aria-selected") === "true");
    const next = { ArrowDown: now + 1, ArrowUp: now - 1 }[event.key];
    if (event.key === "Enter" && !event.isComposing && options[now]) this.go(options[now], event);
    if (next === undefined || !options.length) return;
    event.preventDefault();
    this.isMoved = true;
    this.choose((next + options.length) % options.length);
  }

  clicked(event) {
    const option = event.target.closest("[role=option]");
    if (option) this.go(option, event);
  }

  go(option, event) {
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) return void window.open(option.dataset.href, "_blank", "noopener");
    this.dialog.close();
    const run = option.run ?? this.mode.run;
    if (run) run(option);
    else location.assign(option.dataset.href);
  }
}

// Sessions, messages, agents, pages, tasks, people, ids

async function find(text, show, signal) {
  const known = () => atOnce(text);
  show(known(), Boolean(text) || !synced);
  await read();
  show(known(), Boolean(text));
  if (!text) return;
  const [found, said] = await Promise.all([foundFor(text, signal), messagesFor(text, signal)]);
  const [first, rest] = [true, false].map((isFirst) => found.filter((group) => group.isFirst === isFirst));
  show([...first, ...known(), ...rest, { name: "Messages and files", options: said }], false);
}

function atOnce(text) {
  const fits = fitting(text);
  const titled = conversations.filter(({ titles }) => titles.some(fits)).slice(0, MOST);
  const pages = [...document.querySelectorAll(".sidebar-foot a, #account a, .sidebar [data-new]")];
  return [
    { name: "Sessions", options: titled.map(sessionOption) },
    { name: "Pages", options: pages.filter((link) => fits(nameOf(link))).map(pageOption) },
  ];
}

/** Each has the title of its first session, and opens the branch that changed last. The newest come first. */
function inFamilies(sessions) {
  const families = new Map();
  for (const session of sessions.sort((one, other) => (one.updatedAt < other.updatedAt ? 1 : -1))) {
    const key = session.rootId;
    if (families.has(key)) families.get(key).push(session);
    else families.set(key, [session]);
  }
  return [...families.values()].map((branches) => {
    const first = branches.find(({ id, rootId }) => id === rootId) ?? branches.at(-1);
    const newest = branches.find(({ archivedAt }) => !archivedAt) ?? branches[0];
    return { ...newest, title: first.title, titles: branches.map(({ title }) => title) };
  });
}

/** Does a title contain all the words? */
function fitting(text) {
  const words = text.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  return (title) => words.every((word) => title.toLocaleLowerCase().includes(word));
}

const nameOf = (link) => (link.querySelector(".name") ?? link).textContent.trim();

/** All sessions, first from this browser, then up to date. */
async function read() {
  const kept = (found) => (conversations = inFamilies([...found.sessions.values()]));
  if (!synced) kept(await store.read());
  if (Date.now() - synced < 10_000) return;
  await sync(store).then(kept, () => {}); // offline the kept ones are used
  synced = Date.now();
}

export function option(href, sign, name, more, ...rest) {
  const what = h("span", { class: "what" }, h("span", { class: "name", dir: "auto" }, name), more && h("span", { class: "more", dir: "auto" }, more));
  return h("div", { role: "option", class: "option", "data-href": href, "aria-selected": "false" }, sign, what, ...rest);
}

function sessionOption({ id, title, updatedAt, archivedAt }) {
  const more = archivedAt ? "Archived" : "";
  return option(`/sessions/${id}`, icon("sessions"), title || "New session", more, h("time", { class: "muted small" }, shortTime(updatedAt)));
}

function pageOption(link) {
  const made = option(link.href, icon("open"), nameOf(link), "");
  made.run = () => link.click();
  return made;
}

async function messagesFor(text, signal) {
  const query = new URLSearchParams({ q: /[\w\p{L}]$/u.test(text) ? `${text}*` : text, limit: MOST });
  const { items } = await api("GET", `/search?${query}`, undefined, { signal });
  return items.filter(({ kind }) => kind !== "session").map((found) => {
    const words = found.excerpt.map(({ text, hit }) => (hit ? h("mark", {}, text) : text));
    const place = h("span", { class: "more", dir: "auto" }, `${found.sessionTitle || "New session"} · ${shortTime(found.timestamp)}`);
    const made = option(`/sessions/${found.sessionId}#m-${found.index}`, icon(found.kind === "artifact" ? "file" : "sessions"), "", "");
    made.querySelector(".name").append(...words);
    made.querySelector(".what").append(place);
    return made;
  });
}

// Agents, as the server draws them

function chosen(option) {
  document.dispatchEvent(new CustomEvent("agent-chosen", { detail: option }));
}

async function choose(text, show, signal) {
  const needs = document.getElementById("composer")?.dataset.needs?.split(" ").filter(Boolean) ?? [];
  const found = await agentsFor(text, signal);
  const able = found.filter(({ dataset }) => needs.every((type) => takes(dataset, type)));
  show([{ name: needs.length ? "Agents that take your files" : "Agents", options: able }], false);
}
