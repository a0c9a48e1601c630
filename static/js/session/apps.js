// Pages of tool servers (MCP Apps, 2026-01-26): each in a frame of no origin, which speaks JSON-RPC with this module alone. A page may
// be hostile: what it asks for outside its frame, the person decides or the server checks.
import { showDialog } from "../dialog.js";
import { h, icon, safe } from "../dom.js";
import { postOnce } from "../requests.js";

const VERSION = "2026-01-26";
const PATIENCE = 20_000; // ms until a page should have begun to speak
const FAREWELL = 500; // ms for a page's last words
const [LOWEST, HIGHEST] = [40, 0.8]; // of a frame: px, and of the window's height
const MOST_CALLS = 4; // of one page at a time
const LONGEST_NAME = 80; // characters
const LONGEST = 20_000; // characters of a message
const LONGEST_SHOWN = 2000; // characters of a message in its question
const CALM = 700; // ms without a press before a question takes one
const MOST_CONTEXT = 200_000; // characters of what a page tells the model

const apps = new Map(); // by element
const scheme = matchMedia("(prefers-color-scheme: dark)");
let host = null; // the session's page; none where a session is replayed
let asking = Promise.resolve(); // one question at a time

export function start(page) {
  host = page;
  page.composer.form.addEventListener("cleared", () => document.querySelector("#composer-notes .app-context")?.remove());
}

/** Shows an item in its element; a page goes on while its item changes. */
export function drawApp(element, item) {
  const known = apps.get(element);
  if (known?.item.key !== item.key) {
    element.className = "app";
    apps.set(element, new App(element, item));
  }
  apps.get(element).update(item);
}

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    apps.get(target)?.arrive();
  }
}, { rootMargin: "300px" });

addEventListener("message", ({ source, data }) => {
  for (const [element, app] of apps) {
    if (!element.isConnected) app.leave();
    else if (app.frame && source === app.frame.contentWindow) return void app.heard(data);
  }
});

// Who works outside the pages keeps the focus. A page that takes it unasked, which browsers allow even an inert frame, gives it back
// once; then the page goes.
let focused = document.activeElement;
for (const kind of ["focusin", "keydown"])
  addEventListener(kind, ({ target }) => {
    if (!(target instanceof Element) || target.closest(".app-frame")) return;
    focused = target;
    if (!target.closest("dialog")) for (const app of apps.values()) app.rest();
  }, true);

addEventListener("blur", () => {
  const frame = document.activeElement;
  if (!frame?.matches(".app-frame[inert]")) return;
  apps.get(frame.closest(".app"))?.tookFocus();
  setTimeout(() => {
    frame.blur();
    focused.focus();
  }); // the browser has moved it then
});

class Denied extends Error {}

class App {
  constructor(element, item) {
    Object.assign(this, { element, item, frame: null, told: null, isOpen: false, isRefused: false, question: null, times: 0, calls: 0, pending: new Map(), last: 0, turn: 0, width: 0 });
    this.note = h("p", { class: "app-note muted small", role: "status" });
    this.called = h("p", { class: "app-called muted small" });
    const { title, server, problem, isBare } = item;
    const button = (name, sign, onclick) => h("button", { type: "button", class: "quiet round", title: name, "aria-label": `${name}: ${title}`, onclick }, icon(sign));
    this.toFill = !problem && document.fullscreenEnabled && button("Full screen", "open", () => this.fill(!this.isFull).catch(() => {}));
    this.toUse = h("button", { type: "button", class: "quiet", "aria-label": `Use: ${title}`, hidden: true, onclick: () => this.use() }, "Use");
    const bar = h(
      "div",
      { class: "app-bar" },
      h("span", { class: "name", dir: "auto" }, title),
      h("span", { class: "about muted small" }, server),
      this.toUse,
      !problem && button("Reload", "again", () => this.load()),
      this.toFill,
    );
    this.box = h("div", { class: isBare ? "app-box is-bare" : "app-box" }, bar, this.note);
    this.box.addEventListener("click", ({ target }) => target === this.box && this.use()); // a frame at rest lets presses through
    element.replaceChildren(this.box, this.called);
    if (problem) return this.say(`The tool server's page is not shown: ${problem}`);
    this.box.addEventListener("fullscreenchange", () => {
      this.toFill.setAttribute("aria-pressed", this.isFull);
      this.tell({ displayMode: this.mode, containerDimensions: this.dimensions });
    });
    new ResizeObserver(() => this.widened()).observe(this.box);
    near.observe(element);
  }

  update(item) {
    this.item = item;
    const counts = item.steps.reduce((all, { name }) => all.set(name, (all.get(name) ?? 0) + 1), new Map());
    const said = [...counts].map(([name, count]) => (count > 1 ? `${name} (${count})` : name)).join(", ");
    this.called.textContent = said && `This page called ${said}.`;
  }

  say(sentence, ...more) {
    this.note.replaceChildren(sentence, ...more);
    this.note.hidden = !sentence;
  }

  /** Says a sentence with a button, and calls `then` once it is pressed. */
  offer(sentence, name, then) {
    this.say(`${sentence} `, h("button", { type: "button", onclick: () => (this.say(""), then()) }, name));
  }

  // A frame at rest takes no presses, keys and focus

  use() {
    if (!this.frame) return;
    this.frame.inert = false;
    this.frame.focus();
    this.toUse.hidden = true;
  }

  rest() {
    if (this.frame) this.frame.inert = true;
    this.toUse.hidden = !this.frame;
  }

  tookFocus() {
    this.times += 1;
    if (this.times > 1) {
      this.remove();
      this.offer("This page took the focus while you did not use it, and was closed.", "Show page", () => this.show());
    }
  }

  remove() {
    clearTimeout(this.timer);
    this.drop();
    this.frame?.remove();
    Object.assign(this, { frame: null, isOpen: false, isRefused: false, times: 0 });
    this.toUse.hidden = true;
  }

  async show() {
    await this.load();
    this.use();
  }

  /** What it asked is not asked any more. */
  drop() {
    this.question?.();
  }

  get mark() {
    return `app ${this.item.address}`;
  }

  /** A page that never began to speak, and perhaps held the browser up, waits for a press. */
  arrive() {
    if (sessionStorage.getItem(this.mark) === null) this.load();
    else this.offer("This page did not answer the last time.", "Show page", () => this.show());
  }

  async load() {
    const turn = (this.turn += 1);
    await this.bid("reload");
    if (turn !== this.turn) return;
    this.remove();
    this.say("Loading…");
    try {
      const answer = await fetch(`${this.item.address}/result`);
      if (!answer.ok || answer.redirected) throw new TypeError(answer.statusText);
      this.told = await answer.json();
      if (turn !== this.turn) return;
    } catch {
      return void (turn === this.turn && this.say("This page could not be loaded. Check your connection, then press Reload."));
    }
    const { title, address } = this.item;
    const about = { class: "app-frame", inert: true, title: `Page of the tool ${title}`, sandbox: "allow-scripts allow-forms", referrerpolicy: "origin", src: address };
    this.frame = h("iframe", about);
    let loads = 0;
    this.frame.addEventListener("load", () => {
      if ((loads += 1) > 1) this.drop();
      else if (!this.isOpen && !this.question) this.say("");
    });
    sessionStorage.setItem(this.mark, ""); // until it speaks
    this.box.append(this.frame);
    this.rest();
    this.timer = setTimeout(() => this.isOpen || this.say("This page does not answer. Press Reload to try again."), PATIENCE);
  }

  /** Let the page say goodbye before it is taken away. */
  async bid(reason) {
    if (!this.isOpen) return;
    const id = `parley-${(this.last += 1)}`;
    const answer = new Promise((done) => this.pending.set(id, done));
    this.post({ id, method: "ui/resource-teardown", params: { reason } });
    await Promise.race([answer, new Promise((done) => setTimeout(done, FAREWELL))]);
    this.pending.delete(id);
  }

  leave() {
    clearTimeout(this.timer);
    this.drop();
    apps.delete(this.element);
  }

  // Messages

  post(message) {
    this.frame?.contentWindow?.postMessage({ jsonrpc: "2.0", ...message }, "*"); // no origin to name
  }

  async heard(message) {
    if (typeof message !== "object" || message?.jsonrpc !== "2.0") return;
    const { id, method, params } = message;
    if (method === undefined) return this.pending.get(id)?.(message);
    const given = typeof params === "object" && params ? params : {};
    if (id === undefined) return NOTIFICATIONS[method]?.(this, given);
    const { frame } = this;
    const answer = (said) => frame === this.frame && this.post({ id, ...said });
    if (!Object.hasOwn(REQUESTS, method)) return answer({ error: { code: -32601, message: `Parley does not know ${String(method).slice(0, LONGEST_NAME)}.` } });
    try {
      answer({ result: await REQUESTS[method](this, given) });
    } catch (problem) {
      answer({ error: { code: -32000, message: problem.message } });
    }
  }

  /** Tell the page what changed around it. */
  tell(changed) {
    if (this.isOpen) this.post({ method: "ui/notifications/host-context-changed", params: changed });
  }

  // Around the page

  get isFull() {
    return document.fullscreenElement === this.box;
  }

  get mode() {
    return this.isFull ? "fullscreen" : "inline";
  }

  get dimensions() {
    const width = this.frame?.clientWidth ?? this.box.clientWidth;
    return this.isFull ? { width, height: this.frame.clientHeight } : { width, maxHeight: highest() };
  }

  widened() {
    if (this.width !== this.box.clientWidth) this.tell({ containerDimensions: this.dimensions });
    this.width = this.box.clientWidth;
  }

  async fill(isWanted) {
    if (isWanted && !this.isFull) await this.box.requestFullscreen();
    if (!isWanted && this.isFull) await document.exitFullscreen();
  }

  get around() {
    const touch = matchMedia("(pointer: coarse)").matches;
    return {
      toolInfo: { tool: { name: this.item.name, inputSchema: { type: "object" } } },
      ...look(),
      displayMode: this.mode,
      availableDisplayModes: [...new Set(["inline", this.mode])],
      containerDimensions: this.dimensions,
      locale: navigator.language,
      timeZone: document.documentElement.dataset.zone,
      userAgent: "Parley",
      platform: "web",
      deviceCapabilities: { touch, hover: matchMedia("(hover: hover)").matches },
    };
  }
}

const highest = () => Math.round(innerHeight * HIGHEST);

/** Who only reads a session sees its pages, but may not act by them. */
const mayAct = () => Boolean(host) && !host.composer.form.hidden;

function canAct() {
  if (!mayAct()) throw new Denied("This session can only be read here.");
}

/** The theme and its colors, by the names that pages know. */
function look() {
  const { theme } = document.documentElement.dataset;
  const style = getComputedStyle(document.documentElement);
  const variables = Object.fromEntries(Object.entries(LOOK).map(([name, own]) => [name, style.getPropertyValue(own).trim()]));
  return { theme: theme || (scheme.matches ? "dark" : "light"), styles: { variables } };
}

const LOOK = {
  "--color-background-primary": "--background",
  "--color-background-secondary": "--surface",
  "--color-background-tertiary": "--pressed",
  "--color-text-primary": "--text",
  "--color-text-secondary": "--muted",
  "--color-text-danger": "--failed",
  "--color-text-success": "--done",
  "--color-border-primary": "--edge",
  "--color-border-secondary": "--hairline",
  "--color-ring-primary": "--accent",
  "--font-sans": "--type",
  "--font-mono": "--mono",
  "--border-radius-md": "--radius",
};

function changed() {
  for (const app of apps.values()) app.tell(look());
}

scheme.addEventListener("change", changed);
new MutationObserver(changed).observe(document.documentElement, { attributeFilter: ["data-theme"] });

const NOTIFICATIONS = {
  "ui/notifications/initialized"(app) {
    if (app.isOpen) return;
    app.isOpen = true;
    sessionStorage.removeItem(app.mark);
    if (!app.question) app.say("");
    app.post({ method: "ui/notifications/tool-input", params: { arguments: app.told.arguments } });
    app.post({ method: "ui/notifications/tool-result", params: app.told.result });
  },
  "ui/notifications/size-changed"({ frame }, { height }) {
    if (Number.isFinite(height)) frame.style.height = `${Math.min(Math.max(Math.ceil(height), LOWEST), highest())}px`;
  },
  "notifications/message": (_, { level, data }) => console.debug("A page of a tool server says", level, data),
};

const REQUESTS = {
  "ui/initialize"(app) {
    app.isOpen = false; // a frame that was moved begins again
    app.drop();
    const acts = mayAct() && { serverTools: {}, message: { text: {} }, updateModelContext: { text: {}, structuredContent: {} } };
    return {
      protocolVersion: VERSION,
      hostInfo: { name: "Parley", version: "1" },
      hostCapabilities: { openLinks: {}, logging: {}, sandbox: { permissions: {} }, ...acts },
      hostContext: app.around,
    };
  },
  ping: () => ({}),
  async "ui/request-display-mode"(app, { mode }) {
    if (mode === "inline") await app.fill(false).catch(() => {}); // only the person fills the screen
    return { mode: app.mode };
  },
  async "ui/open-link"(app, { url }) {
    const link = typeof url === "string" && URL.canParse(url) ? new URL(url) : null;
    if (link?.protocol !== "https:") throw new Denied("Only https links are opened.");
    const open = () => window.open(link.href, "_blank", "noopener,noreferrer");
    const words = [h("p", {}, `The page “${app.item.title}” wants to open this address in a new tab:`), h("p", { class: "app-link verbatim" }, link.href)];
    await ask(app, "Open this link?", words, "Open", open);
    return {};
  },
  async "ui/message"(app, { content }) {
    canAct();
    const text = wordsOf(content);
    if (!text || text.length > LONGEST) throw new Denied(`A message has between 1 and ${LONGEST} characters of text.`);
    const { composer } = host;
    const short = text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text;
    const words = [h("p", {}, `The page “${app.item.title}” wants to add this to your message:`), h("p", { class: "app-link verbatim" }, short)];
    const add = () => composer.write([composer.words.value, text].filter(Boolean).join("\n\n"));
    await ask(app, "Add to your message?", words, "Add to message", add);
    app.fill(false).catch(() => {}); // the draft is to be seen
    composer.words.focus();
    return {};
  },
  "ui/update-model-context"(app, { content, structuredContent }) {
    canAct();
    const data = structuredContent === undefined ? "" : JSON.stringify(structuredContent, null, 2);
    const text = [wordsOf(content), data].filter(Boolean).join("\n\n");
    if (text.length > MOST_CONTEXT) throw new Denied(`The context has more than ${MOST_CONTEXT} characters.`);
    setContext(app, text);
    return {};
  },
  async "tools/call"(app, { name, arguments: given = {} }) {
    canAct();
    if (app.calls >= MOST_CALLS) throw new Denied(`At most ${MOST_CALLS} tools are called at a time.`);
    app.calls += 1;
    try {
      return await callTool(app, String(name), given);
    } finally {
      app.calls -= 1;
    }
  },
};

/** Never sent twice: a tool may have effects. */
async function callTool(app, name, given) {
  const { item, frame } = app;
  const form = new FormData();
  form.append("name", name);
  form.append("arguments", JSON.stringify(given));
  const address = `${item.address}/calls`;
  const answer = await postOnce(address, form);
  if (!answer.asks) return answer.result;
  if (frame !== app.frame) throw new Denied("The page is gone.");
  const allow = async () => form.append("token", (await postOnce(`${address}/token`, form)).token);
  await ask(app, `The page “${item.title}” wants to use a tool`, [safe(h("div"), answer.asks)], "Allow once", allow);
  return (await postOnce(address, form)).result;
}

const wordsOf = (content) =>
  [content ?? []]
    .flat()
    .filter((block) => block?.type === "text" && typeof block.text === "string")
    .map(({ text }) => text)
    .join("\n\n")
    .trim();

/** Resolves once a person pressed the button `yes` and `act` is done. Throws Denied.
 *
 * A page asks one thing at a time. If the person does not use it just now, or refused the question before, a press shows the question.
 */
async function ask(app, title, words, yes, act) {
  if (app.question) throw new Denied("This page has a question already.");
  const dropped = new Promise((_, failed) => (app.question = () => failed(new Denied("The page is gone."))));
  dropped.catch(() => {});
  try {
    if (app.frame.inert || app.isRefused)
      await Promise.race([dropped, new Promise((done) => app.offer("This page has a question.", "Show question", done))]);
    const asked = asking.then(() => answered(title, words, yes, act, dropped));
    asking = asked.catch(() => {});
    await asked;
    app.isRefused = false;
  } catch (problem) {
    app.isRefused = true;
    throw problem;
  } finally {
    app.question = null;
  }
}

function answered(title, words, yes, act, dropped) {
  return new Promise((done, failed) => {
    let isPressed = false;
    const press = ({ isTrusted }) => {
      if (!isTrusted) return; // only a person decides
      isPressed = true;
      Promise.resolve(act()).then(done, failed);
      dialog.close();
    };
    const buttons = [
      h("button", { type: "button", class: "primary", onclick: press }, yes),
      h("button", { type: "button", onclick: () => dialog.close() }, "Not now"),
    ];
    const dialog = showDialog(title, [...words, h("div", { class: "question-foot" }, buttons)]);
    const stop = new AbortController();
    calm(buttons, stop.signal);
    buttons[1].focus();
    dialog.addEventListener("close", () => {
      stop.abort();
      if (!isPressed) failed(new Denied("The person did not allow it."));
    });
    dropped.catch((problem) => {
      failed(problem);
      dialog.close();
    });
  });
}

/** The buttons take no press until none came for a while: the person pressed what stood there before. */
function calm(buttons, signal) {
  let timer = 0;
  const set = (isEarly) => buttons.forEach((button) => button.setAttribute("aria-disabled", isEarly));
  const begin = () => {
    set(true);
    clearTimeout(timer);
    timer = setTimeout(() => {
      timer = 0;
      set(false);
    }, CALM);
  };
  const press = (event) => {
    if (!timer) return;
    begin();
    if (event.type === "click" && buttons.some((button) => button.contains(event.target))) event.stopImmediatePropagation();
  };
  for (const kind of ["pointerdown", "keydown", "keyup", "click"]) addEventListener(kind, press, { capture: true, signal });
  begin();
}

/** What the model is to know goes with the next message, as a file that the person sees and may remove. */
function setContext(app, text) {
  const { composer } = host;
  const name = `Shown in ${app.item.title}.txt`;
  const others = composer.also.filter(([, value]) => value.name !== name);
  composer.also = text ? [...others, ["files", new File([text], name, { type: "text/plain" })]] : others;
  const notes = document.getElementById("composer-notes");
  const list = notes.querySelector(".app-context") ?? h("ul", { class: "plain app-context", "aria-label": "What pages add to your next message" });
  for (const chip of list.children) if (chip.title === name) chip.remove();
  if (text) {
    const away = () => setContext(app, "");
    const remove = h("button", { type: "button", class: "quiet round", "aria-label": `Do not send ${name}`, onclick: away }, icon("close"));
    list.append(h("li", { class: "chip", title: name }, icon("file"), h("span", { class: "name", dir: "auto" }, name), remove));
  }
  if (list.children.length) notes.append(list);
  else list.remove();
}
