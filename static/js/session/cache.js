// Keeping what a page has, and what comes, as soon as a turn is over, or when the person or the line goes away in the middle of
// one. `old.js` and `older.js` take it from there.
import { keptOf } from "./kept.js";

const QUIET = 1500; // ms without news before they are written
const PIECES = { agent_token_start: ["completed"], agent_token: ["completed"] }; // and when they are not needed any more
PIECES.artifact_update = ["completed", "failed", "rejected", "canceled"];

/** From the first time on. */
export function start(page) {
  page.cache ??= new Cache(page);
}

class Cache {
  constructor(page) {
    this.kept = keptOf(page);
    this.until = page.first - 1;
    this.news = page.entries.slice();
    this.write(page.state);
    page.on("entries", (fresh) => {
      for (const entry of fresh) this.news.push(entry);
      clearTimeout(this.due);
      this.due = setTimeout(() => this.write(page.state), QUIET);
    });
    const pruning = import("./pruning.js").catch(() => ({})); // the next page does it
    pruning.then(({ prune }) => prune?.(this.kept));
    page.on("line", (name) => {
      if (name !== "gone") return;
      this.isGone = true;
      pruning.then(({ drop }) => drop?.(this.kept));
    });
    addEventListener("pagehide", () => this.write(page.state));
  }

  write({ tasks, last }) {
    if (this.isGone) return;
    const isWhole = ({ type, taskId }) => !PIECES[type]?.includes(tasks[taskId]?.state);
    this.kept.keep(this.until + 1, last, this.news.splice(0).filter(isWhole));
    this.until = last;
  }
}
