// Following sessions over a WebSocket, or by server-sent events where there is none, from a position on. It reconnects by itself,
// and tells nothing twice.

const ALL = "/ws/events"; // the line of all sessions
const SILENCE = 30000; // ms without a word after which a line counts as lost; the server speaks every 15 s
const FIRST_WAIT = 400;
const LONGEST_WAIT = 20000;
const FINAL = { 4400: "refused", 4401: "signed-out", 4404: "gone" };

/** Lets each event through once, by session and index; after a reset a session begins anew. */
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
   * `path`: of one session's line instead of the line of all. `since`: a token (empty: from now on), or the index that a
   * page of one session has. `heard(events, since)` takes what is new, `changed(name)` is told "live" (the line is there
   * again), "lost", "signed-out", "refused" or "gone"; `said(word)` hears each word of a socket as it came.
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

  open() {
    clearTimeout(this.waiting);
    const useStream = this.path === ALL && this.unopened % 3 === 2; // now and then the other way
    const line = (useStream ? stream : socket)(this, {
      opened: () => (this.unopened = 0),
      told: (events, token) => line === this.line && this.take(events, token),
      closed: (code) => line === this.line && this.closed(code),
    });
    this.line = line;
    this.unopened += 1;
    this.listen();
  }

  /** Events, and the position after them; none are a sign of life, with a position once all that was missed has come. */
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
    this.changed("lost");
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.tries++);
    this.waiting = setTimeout(() => this.open(), wait * (0.5 + Math.random()));
  }

  /** The network is back, or somebody looks again: do not wait for the next try. */
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

/** `since` is a token of all sessions' line, and an index of one session's. */
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
    told(word.events ?? word.entries ?? [], word.token ?? word.last ?? "");
    if (seen && line.readyState === WebSocket.OPEN) line.send(JSON.stringify({ seen }));
    said(word);
  };
  line.onclose = ({ code }) => closed(code);
  return line;
}

/** By server-sent events; what that takes is loaded only now. */
function stream(follower, told) {
  const cut = new AbortController();
  import("./stream.js").then((way) => way.stream(follower, told, cut.signal)).catch(() => told.closed(1006));
  return { close: () => cut.abort() };
}
