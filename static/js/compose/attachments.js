// Files of a message: small ones go with the message; large ones are uploaded at once, while the person still writes.
import { h, icon } from "../dom.js";
import { bytes } from "../format.js";
import { api, Refused } from "../requests.js";
import { keepWith } from "./drafts.js";
import { isText, takes, typeOf } from "./intake.js";

const RETRY = 3000; // ms between tries while the connection is lost
const WORDS = { waits: "Waiting for the connection", refused: "Not uploaded", there: "" };

export class Attachments {
  constructor(composer) {
    const { mostBytes, mostUploadBytes, mostFiles } = composer.form.dataset;
    Object.assign(this, { composer, files: [], list: composer.form.querySelector(".chosen") });
    Object.assign(this, { most: Number(mostBytes), mostOfOne: Number(mostUploadBytes), mostFiles: Number(mostFiles) });
    composer.form.addEventListener("addressed", () => this.files.forEach((one) => this.check(one)));
    const field = composer.form.querySelector(".composer-field");
    new MutationObserver(() => this.files.forEach((one) => this.check(one))).observe(field, { attributeFilter: ["data-takes"] });
    addEventListener("online", () => this.files.filter(({ state }) => state === "waits").forEach((one) => this.start(one)));
  }

  /** A file that cannot be sent keeps no other from being taken. */
  add(files) {
    const problems = files.map((file) => this.problemWith(file) || void this.take({ file, name: file.name, size: file.size, type: typeOf(file), id: "", isThere: false }));
    this.composer.complain([...new Set(problems.filter(Boolean))].join(" "));
    this.composer.words.focus();
  }

  problemWith({ name, size }) {
    if (size > this.mostOfOne) return `“${name}” is ${bytes(size)}. The limit is ${bytes(this.mostOfOne)}.`;
    return this.files.length < this.mostFiles ? "" : `Send at most ${this.mostFiles} files at once.`;
  }

  /** Small files go with the words, as long as the whole message is small enough. */
  take(one) {
    const beside = this.files.filter(({ state }) => state === "small").reduce((sum, { size }) => sum + size, one.size);
    const isSmall = one.file && (!one.size || (one.size < LARGE && beside < this.most / 2));
    one.state = isSmall ? "small" : "there";
    one.chip = this.chipOf(one);
    this.files.push(one);
    this.list.append(one.chip);
    this.counted();
    this.check(one);
  }

  /** Is the file one that the agent of the next message takes? A large one is uploaded only then. */
  check(one) {
    const taker = this.taker;
    if (takes(taker, one.type)) return this.fits(one, true);
    one.isFit = false;
    one.checked = this.isTextFor(taker, one).then((isText) => {
      if (taker !== this.taker) return;
      if (isText) one.type = "text/plain";
      this.fits(one, isText);
    });
  }

  isTextFor(taker, { file }) {
    return file && takes(taker, "text/*") ? isText(file).catch(() => false) : Promise.resolve(false);
  }

  fits(one, isFit) {
    one.isFit = isFit;
    one.chip.classList.toggle("is-unfit", !isFit);
    const { agent, takesWords } = this.taker;
    one.chip.querySelector(".unfit").replaceChildren(...(isFit ? [] : [`${agent} takes ${takesWords} only. `, this.otherAgent() ?? ""]));
    this.counted();
    if (isFit && one.state !== "small" && !one.isThere && !one.running) this.start(one);
  }

  /** The dataset that describes the agent of the next message. */
  get taker() {
    return this.composer.mentioned ?? this.composer.form.querySelector(".composer-field").dataset;
  }

  /** A way out, where the page has a choice of agents. */
  otherAgent() {
    const picker = document.querySelector("#agent-picker, #switch");
    return picker && h("button", { type: "button", class: "small", onclick: () => picker.click() }, "Choose another agent");
  }

  start(one) {
    clearTimeout(one.timer);
    one.cut = new AbortController();
    one.running = this.run(one);
  }

  async run(one) {
    this.is(one, "going");
    const progress = (fraction) => (one.chip.querySelector("progress").value = fraction);
    const announced = (id) => (one.id = id);
    try {
      await upload(one.file, { id: one.id, type: one.type, signal: one.cut.signal, announced, progress });
      one.isThere = true;
      this.is(one, "there");
    } catch (problem) {
      if (one.cut.signal.aborted) return;
      const isRefused = problem instanceof Refused;
      this.is(one, isRefused ? "refused" : "waits");
      if (isRefused) this.composer.complain(`“${one.name}”: ${problem.message}`);
      else one.timer = setTimeout(() => this.start(one), RETRY);
    }
  }

  is(one, state) {
    one.state = state;
    one.chip.querySelector("progress").hidden = state !== "going" && state !== "waits";
    one.chip.querySelector(".how").textContent = WORDS[state] ?? "";
  }

  chipOf(one) {
    return h(
      "li",
      { class: "chip" },
      icon("file"),
      h("span", { class: "name" }, one.name),
      h("span", { class: "size" }, one.size ? bytes(one.size) : "empty"),
      h("progress", { max: 1, value: 0, hidden: true, "aria-label": `Uploading ${one.name}` }),
      h("span", { class: "how" }),
      h("span", { class: "unfit error", role: "alert" }),
      h("button", { type: "button", class: "quiet round", "aria-label": `Remove ${one.name}`, onclick: () => this.remove(one) }, icon("close")),
    );
  }

  remove(one) {
    this.drop(one);
    if (one.id) discard(one.id);
    this.composer.complain("");
    this.composer.words.focus();
  }

  drop(one) {
    clearTimeout(one.timer);
    one.cut?.abort();
    one.chip.remove();
    this.files = this.files.filter((other) => other !== one);
    this.counted();
  }

  counted() {
    this.list.hidden = !this.files.length;
    this.composer.form.dataset.needs = this.files.filter(({ isFit }) => isFit === false).map(({ type }) => type).join(" ");
    keepWith(this.composer, { files: !this.list.hidden });
  }

  /** Does nothing wait for the files? */
  get areThere() {
    return this.files.every(({ state, isFit }) => isFit && (state === "small" || state === "there"));
  }

  /** Wait until each file is uploaded, or waits for the connection: then the message waits with it. False if one was refused. */
  async ready() {
    await Promise.all(this.files.map(({ checked }) => checked));
    const unfit = this.files.find(({ isFit }) => !isFit);
    if (unfit) this.composer.complain(`Remove “${unfit.name}”, or choose an agent that takes it.`);
    if (unfit) return false;
    await Promise.all(this.files.map(({ running }) => running));
    return !this.files.some(({ state }) => state === "refused");
  }

  /** The files as fields of a message; for an uploaded file, only its data. */
  said() {
    return this.files.map(({ file, name, size, type, id, isThere, state }) =>
      state === "small" ? ["files", file] : ["large", { file: isThere ? null : file, name, size, type, id, isThere }],
    );
  }

  clear() {
    for (const one of this.files) this.drop(one);
  }

  giveBack(said) {
    for (const [name, value] of said) {
      if (name === "files") this.take({ file: value, name: value.name, size: value.size, type: value.type, id: "" });
      if (name === "large") this.take({ ...value });
    }
  }
}

const LARGE = 1e6; // bytes from which on a file goes in pieces
const [SMALLEST, FIRST, LARGEST] = [2 ** 18, 2 ** 19, 2 ** 23]; // bytes of a piece
const [QUICK, SLOW] = [500, 2000]; // ms for a piece: it shows progress, and an interruption costs little

/**
 * Returns the id by which the message names the file. `id` is that of an earlier upload; `announced(id)` gets a new one,
 * `progress(fraction)` the share so far. Throws Refused, Unreachable, and the reason of `signal`.
 */
export async function upload(file, { id = "", type = file.type, signal, announced = () => {}, progress = () => {} } = {}) {
  let at = id ? await offsetOf(id, signal) : null;
  if (at === null) {
    ({ id } = await api("POST", "/uploads", { filename: file.name, size: file.size, mediaType: type }, { signal }));
    announced(id);
    at = 0;
  }
  for (let size = FIRST; at < file.size; ) {
    progress(at / file.size);
    const begun = performance.now();
    at = await append(id, at, file.slice(at, at + size), signal);
    const took = performance.now() - begun;
    if (took < QUICK) size = Math.min(size * 2, LARGEST);
    if (took > SLOW) size = Math.max(size / 2, SMALLEST);
  }
  progress(1);
  return id;
}

/** Give up an upload. If the request fails, the server deletes the upload when it expires. */
export function discard(id) {
  return api("DELETE", `/uploads/${id}`).catch(() => {});
}

async function offsetOf(id, signal) {
  try {
    return (await api("GET", `/uploads/${id}`, undefined, { signal })).offset;
  } catch (problem) {
    if (problem.status === 404) return null; // it has expired
    throw problem;
  }
}

async function append(id, at, piece, signal) {
  try {
    return (await api("PATCH", `/uploads/${id}`, piece, { signal, headers: { "Upload-Offset": String(at) } })).offset;
  } catch (problem) {
    if (problem.status === 409) return offsetOf(id, signal); // the answer to the previous piece was lost
    throw problem;
  }
}
