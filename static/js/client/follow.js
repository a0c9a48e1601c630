// Following sessions from a position, over a WebSocket, or by server-sent events where no socket opens. It reconnects by itself,
// and reports each event once.

const ALL = "/ws/events"; // all sessions
const SILENCE = 30000; // ms without data after which a connection counts as lost; the server sends something every 15 s
const FIRST_WAIT = 400;
const LONGEST_WAIT = 20000;
const FINAL = { 4400: "refused", 4401: "signed-out", 4404: "gone" };
const CHANGED = 4403; // the reader's role or workspace

/** Lets each event through once, by session and index; after a reset it starts over for a session. */
export class Once {
  newest = new Map();

  through(event) {
    if (event.type === "reset") {
      if (event.sessionId) this.newest.delete(event.sessionId);
      else this.newest.clear();
      return true;
    }
    if (event.index <= (this.newest.get(event.sessionId) ?? 0)) return false;
    this.newest.set(event.sessionId, event.index);
    return true;
  }
}

export class Follower {
  /**
   * `path`: one session's address instead of that of all. `since`: a token (empty: from now on), or for one session an index.
   * `heard(events, since)` gets new events. `changed(name)` is called with "live" (connected again), "lost", "signed-out",
   * "changed" (before it connects again), "refused" or "gone". `said(data)` gets each message of a socket unchanged.
   */
  constructor({ path = ALL, since = "", sessionIds = [], types = [], heard, changed = () => {}, said = () => {} }) {
    Object.assign(this, { path, since, sessionIds, types, heard, changed, said, tries: 0, unopened: 0, line: null });
    this.once = new Once();
    addEventListener("offline", () => this.lose());
    addEventListener("online", () => this.hurry());
    addEventListener("pagehide", () => this.drop());
    addEventListener("pageshow", (event) => event.persisted && this.open());
    document.addEventListener("visibilitychange", () => document.hidden || this.hurry());
    this.open();
  }

  openFrom(since) {
    this.since = since;
    this.open();
  }

  open() {
    clearTimeout(this.waiting);
    const useStream = this.path === ALL && this.unopened % 3 === 2; // sometimes tries the other transport
    const line = (useStream ? stream : socket)(this, {
      opened: () => (this.unopened = 0),
      told: (events, token) => line === this.line && this.take(events, token),
      closed: (code) => line === this.line && this.closed(code),
    });
    this.line = line;
    this.unopened += 1;
    this.listen();
  }

  /**
   * Handle events and the position after them. An empty list is a heartbeat; it has a position when all missed events have come.
   */
  take(events, token) {
    this.listen();
    const fresh = events.filter((event) => this.once.through(event));
    if (token !== "") this.since = token;
    if (fresh.length) this.heard(fresh, this.since);
    if (token !== "" && !events.length) {
      this.tries = 0;
      this.changed("live");
    }
  }

  listen() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.lose(), SILENCE);
  }

  lose() {
    if (this.line) this.closed(1006);
  }

  closed(code) {
    this.drop();
    if (FINAL[code]) return this.changed(FINAL[code]);
    if (code === CHANGED) return this.restart();
    this.changed("lost");
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.tries++);
    this.waiting = setTimeout(() => this.open(), wait * (0.5 + Math.random()));
  }

  /** Tokens belong to a workspace; indexes of a session do not. */
  restart() {
    if (this.path === ALL) this.since = "";
    this.changed("changed");
    this.open();
  }

  /** The network is back, or the page is visible again: do not wait for the next try. */
  hurry() {
    if (this.line || !this.waiting) return;
    this.tries = 0;
    this.open();
  }

  drop() {
    const { line } = this;
    clearTimeout(this.silence);
    clearTimeout(this.waiting);
    this.waiting = this.line = null;
    line?.close();
  }
}

/** `since` is a token for all sessions, and an index for one session. */
function socket({ path, since, sessionIds, types, said }, { opened, told, closed }) {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const isAll = path === ALL;
  const line = new WebSocket(`${scheme}://${location.host}${path}${isAll ? "" : `?after=${since || 0}`}`);
  line.onopen = () => {
    opened();
    if (isAll) line.send(JSON.stringify({ since, sessionIds, types }));
  };
  line.onmessage = ({ data }) => {
    const word = JSON.parse(data);
    const seen = word.number ?? word.last;
    told(word.events ?? (word.patch ? [word.patch] : []), word.token ?? word.last ?? "");
    if (seen && line.readyState === WebSocket.OPEN) line.send(JSON.stringify({ seen }));
    said(word);
  };
  line.onclose = ({ code }) => closed(code);
  return line;
}

/** By server-sent events, loaded only when needed. */
function stream(follower, told) {
  const cut = new AbortController();
  import("./stream.js").then((way) => way.stream(follower, told, cut.signal)).catch(() => told.closed(1006));
  return { close: () => cut.abort() };
}
