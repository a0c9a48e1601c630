// What stands above and below a conversation: its title and state, whom one writes to, and whether that can be stopped.
import { h, sign } from "../dom.js";
import { addressedTask, busyTask, waitingTask } from "./standing.js";

const $ = (id) => document.getElementById(id);

/** The server drew how it looks at first (`web/standing.py`). */
export function start(page) {
  const head = new Head(page);
  page.on("drawn", () => head.draw());
  head.draw();
}

class Head {
  constructor(page) {
    Object.assign(this, { page, slug: page.beginning.agent.slug });
  }

  draw() {
    const { state } = this.page;
    const waiting = waitingTask(state);
    const busy = busyTask(state);
    this.drawState(this.page.stopping ? "stopping" : waiting ? "waiting" : busy ? "working" : "");
    this.drawComposer(state, waiting, busy);
    if (state.title && state.title !== $("title").textContent) {
      $("title").textContent = state.title;
      document.title = `${state.title} · Parley`;
    }
    if (state.agent.slug !== this.slug) this.drawAgent(state.agent);
  }

  drawState(look) {
    if (look === this.look) return;
    this.look = look;
    const words = { waiting: "Waiting for you", working: "Working", stopping: "Stopping…" };
    const shown = look && [sign(look === "stopping" ? "working" : look), h("span", { class: "word" }, words[look])];
    $("head-state").replaceChildren(...(shown || []));
  }

  drawComposer(state, waiting, busy) {
    const { composer } = this.page;
    const stop = composer.form.querySelector(".stop");
    const isNeeded = Boolean(busy ?? waiting);
    if (!isNeeded && stop === document.activeElement) composer.words.focus();
    stop.hidden = !isNeeded;
    stop.disabled = Boolean(this.page.stopping);
    stop.lastChild.textContent = stop.disabled ? "Stopping…" : "Stop";
    const addressed = addressedTask(state);
    const answers = waiting && addressed?.id === waiting.id;
    const shut = Boolean(answers && waiting.wantsCredential); // a key that is written here would be part of the conversation
    if (composer.words.disabled !== shut) {
      for (const element of composer.form.querySelectorAll("textarea, #files, .send")) element.disabled = shut;
    }
    const { name } = answers ? (waiting.agent ?? state.agent) : state.agent;
    composer.words.placeholder = shut ? "Use the button above" : answers ? `Answer ${name}…` : `Message ${name}…`;
    this.drawSend(composer, Boolean(addressed) && addressed === busy);
  }

  /** While somebody works, what is sent waits for that, or is said into it. */
  drawSend({ form, words }, isBusy) {
    const [send, now] = [form.querySelector(".send"), form.querySelector(".send-now")];
    if (!isBusy && now === document.activeElement) words.focus();
    now.hidden = !isBusy;
    const name = isBusy ? "Send when the work is done" : "Send";
    if (send.title !== name) send.title = send.lastElementChild.textContent = name;
    form.querySelector(".composer-hint").textContent = isBusy ? "What you send waits until this is done" : "";
  }

  /** The agent with whom the session goes on. */
  drawAgent({ slug, name }) {
    this.slug = slug;
    $("with").textContent = `with ${name}`;
    $("with").href = `/agents/${slug}`;
    for (const choice of document.querySelectorAll("[data-switch]")) choice.hidden = choice.dataset.switch === slug;
  }
}
