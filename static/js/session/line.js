// The live line to the server: it resumes where it broke off, and says at once when it is lost.

const SILENCE = 25000; // ms without a word after which the line counts as lost; the server speaks every 15 s
const FIRST_WAIT = 400;
const LONGEST_WAIT = 15000;
const REASONS = { 4401: "signed-out", 4404: "gone" };

export class Line {
  /**
   * `after()` is the index that the page has, `heard(entries)` takes what is new,
   * `changed(state)` is told "live", "lost", "signed-out" or "gone".
   */
  constructor(path, { after, heard, changed }) {
    Object.assign(this, { path, after, heard, changed, tries: 0, socket: null });
    addEventListener("offline", () => this.lose());
    addEventListener("online", () => this.hurry());
    addEventListener("pagehide", () => this.end());
    addEventListener("pageshow", (event) => event.persisted && this.open());
    document.addEventListener("visibilitychange", () => document.hidden || this.hurry());
    this.open();
  }

  open() {
    clearTimeout(this.waiting);
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}${this.path}?after=${this.after()}`);
    this.socket = socket;
    this.listen();
    socket.onopen = () => {
      if (socket !== this.socket) return;
      this.tries = 0;
      this.changed("live");
      this.listen();
    };
    socket.onmessage = ({ data }) => socket === this.socket && this.take(JSON.parse(data));
    socket.onclose = ({ code }) => socket === this.socket && this.closed(code);
  }

  take(said) {
    this.listen();
    if (!said.entries) return;
    this.heard(said.entries);
    this.socket.send(JSON.stringify({ seen: said.last }));
  }

  /** Wait for the next word; a line that stays silent is lost, whatever the browser believes. */
  listen() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.lose(), SILENCE);
  }

  lose() {
    const socket = this.drop();
    socket?.close();
    this.closed(1006);
  }

  drop() {
    const { socket } = this;
    clearTimeout(this.silence);
    clearTimeout(this.waiting);
    this.socket = null;
    return socket;
  }

  closed(code) {
    this.drop();
    if (REASONS[code]) return this.changed(REASONS[code]);
    this.changed("lost");
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.tries++);
    this.waiting = setTimeout(() => this.open(), wait * (0.7 + 0.6 * Math.random()));
  }

  /** The network is back, or somebody looks again: do not wait for the next try. */
  hurry() {
    if (this.socket || !this.waiting) return;
    this.tries = 0;
    this.open();
  }

  end() {
    this.drop()?.close();
  }
}
