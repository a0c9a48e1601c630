// The messages of one session, or the first to an agent, on their way: kept, sent, and tried again until the server has them.
import { all, keep, mayWait, outboxes, send, takeBack } from "./unsent.js";

const WAITS = [1000, 2000, 4000, 8000, 15000, 30000]; // ms between tries; a line that is back is not waited for

let newest = 0;

/** When a message was written, in ms: two of a page that come within one keep their order. */
const written = () => (newest = Math.max(newest + 1, Date.now()));

export class Outbox {
  /**
   * `hears`: waits(message), sent(message, answer), refused(message, sentence), which takes it back; and gone(id, answer) of
   * what was sent from another tab, or, without an answer, went back to where it was written there.
   */
  constructor(session, hears) {
    Object.assign(this, { session, hears, tries: 0 });
    outboxes.set(session, this);
    addEventListener("online", () => this.hurry());
    new BroadcastChannel("unsent").onmessage = ({ data: { id, answer } }) => hears.gone(id, answer);
  }

  /** What was written before is shown as what it is, and goes first. */
  async resume() {
    const messages = await all(this.session);
    for (const message of messages) if (!message.refused) this.hears.waits(message);
    if (messages.length) await this.flush();
  }

  /** `message`: {id, address, said, text, files}. */
  async send(message) {
    await keep({ ...message, session: this.session, at: written() });
    await this.flush();
  }

  /** To where it was written, unless it gets through first. */
  async takeBack(id) {
    const message = await takeBack(this.session, id);
    if (message) this.hears.refused(message, "");
  }

  hurry() {
    this.tries = 0;
    if (mayWait()) this.flush();
  }

  async flush() {
    clearTimeout(this.timer);
    const isThrough = await send(this.session, this.hears);
    clearTimeout(this.timer);
    if (isThrough) this.tries = 0;
    else this.timer = setTimeout(() => this.flush(), WAITS[Math.min(this.tries++, WAITS.length - 1)]);
  }
}
