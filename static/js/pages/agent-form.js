// The form of an agent: long lists are searched, and the agent is tried as the form says now, without saving it.
import { h, safe } from "../dom.js";
import { token as csrf } from "../requests.js";
import { call, NoToken, OPERATIONS, requestOf, taskIn, Token } from "./try/calls.js";

const LONG = 8; // entries of a list that gets a search
const UNREACHABLE = "The server cannot be reached. Try again.";
const form = document.getElementById("agent-form");
const trial = document.querySelector(".trial");
const [talk, words, problem, said, stop, anew] = ["talk", "words", "problem", "said", "stop", "anew"].map((id) => document.getElementById(`trial-${id}`));
const tokens = new Map(); // by the address where they are made

let contextId; // of the conversation with the draft
let task = ""; // that waits for an answer
let aborting = null;

for (const list of form?.querySelectorAll("fieldset.choices > div") ?? []) {
  const labels = [...list.querySelectorAll("label")];
  if (labels.length <= LONG) continue;
  const name = list.closest("fieldset").querySelector("legend").textContent;
  const search = h("input", { type: "search", placeholder: "Search", "aria-label": `Search: ${name}`, autocomplete: "off" });
  search.addEventListener("input", () => {
    const wanted = search.value.trim().toLowerCase();
    for (const label of labels) label.hidden = Boolean(wanted) && !label.textContent.toLowerCase().includes(wanted);
  });
  search.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
  list.before(search);
}

function complain(sentence) {
  problem.textContent = sentence;
  problem.hidden = !sentence;
}

/** What the console needs to call the draft, or null after it said what is wrong. */
async function draft() {
  const fields = new FormData(form);
  fields.delete("drawing");
  fields.set("of", trial.dataset.of);
  const answer = await fetch(trial.dataset.try, { method: "POST", body: fields, headers: { "X-CSRFToken": csrf() } });
  if (answer.redirected) throw new NoToken("You are signed out. Reload this page and sign in.");
  if (answer.ok) return answer.json();
  const problems = answer.status === 422 ? (await answer.json()).problems : { __all__: "This agent cannot be tried. Reload the page." };
  complain(Object.entries(problems).map(([name, told]) => `${labelOf(name)}${told}`).join(" "));
  return null;
}

function labelOf(name) {
  const field = form.elements[name];
  const label = field?.labels?.[0] ?? field?.[0]?.closest("fieldset")?.querySelector("legend");
  return label ? `${label.textContent}: ` : "";
}

const textOf = (parts) => (Array.isArray(parts) ? parts : []).map((part) => part?.text).filter((one) => typeof one === "string").join("\n");

/** Draws the answer of one call: what streams, then what was said in the end. */
class Answer {
  constructor() {
    this.text = this.last = this.state = "";
    this.shown = h("p", { class: "streaming", dir: "auto" }, "…");
    this.element = h("li", { class: "trial-answer", "aria-busy": "true" }, this.shown);
  }

  response() {}

  body(text) {
    this.hear(JSON.parse(text));
  }

  event({ data }) {
    this.hear(JSON.parse(data));
  }

  hear(heard) {
    if (heard.error) throw new NoToken(heard.error.message ?? "The agent cannot be called.");
    const result = heard.result ?? {};
    contextId = result.message?.contextId ?? result.task?.contextId ?? result.statusUpdate?.contextId ?? contextId;
    const status = result.statusUpdate?.status ?? result.task?.status;
    if (status) this.state = status.state ?? this.state;
    if (status || result.message) this.last = textOf((status ?? result).message?.parts); // an answer may be an artifact alone
    const update = result.artifactUpdate;
    if (update) this.text = (update.append ? this.text : "") + textOf(update.artifact?.parts);
    task = taskIn(heard)?.id ?? task;
    this.show(this.text || this.last || "…");
  }

  show(text) {
    this.shown.textContent = text;
    talk.scrollTop = talk.scrollHeight;
  }

  async end() {
    const text = this.last || this.text || "The agent gave no answer.";
    this.show(text);
    this.element.removeAttribute("aria-busy");
    said.textContent = text.slice(0, 500);
    if (!/INPUT_REQUIRED|AUTH_REQUIRED/.test(this.state)) task = "";
    const fields = new FormData();
    fields.set("text", text);
    const answer = await fetch(trial.dataset.prose, { method: "POST", body: fields, headers: { "X-CSRFToken": csrf() } }).catch(() => null);
    if (answer?.ok && !answer.redirected) safe(this.element, await answer.text());
  }
}

async function send(text) {
  const agent = await draft();
  if (!agent) return false;
  if (!tokens.has(agent.token)) tokens.set(agent.token, new Token(agent.token));
  const bearer = await tokens.get(agent.token).get();
  const request = requestOf(OPERATIONS.find(({ name }) => name === "SendStreamingMessage"), "1.0", { words: text, task });
  if (contextId && !task) request.params.message.contextId = contextId;
  const answer = new Answer();
  talk.append(h("li", { class: "trial-own", dir: "auto" }, text), answer.element);
  talk.scrollTop = talk.scrollHeight;
  anew.hidden = stop.hidden = false;
  words.value = "";
  const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream", "A2A-Version": "1.0", Authorization: `Bearer ${bearer}` };
  aborting = new AbortController();
  try {
    await call(agent.path, { headers, body: JSON.stringify(request), signal: aborting.signal, heard: answer });
  } finally {
    stop.hidden = true;
    await answer.end();
  }
  return true;
}

document.getElementById("trial-form")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = event.submitter ?? event.target.querySelector("[type=submit]");
  const text = words.value.trim();
  if (!text) return complain("Write a message first.");
  if (button.ariaBusy) return undefined;
  button.ariaBusy = "true";
  complain("");
  try {
    await send(text);
  } catch (error) {
    if (error.name !== "AbortError") complain(error instanceof NoToken ? error.message : UNREACHABLE);
  }
  button.ariaBusy = null;
  return words.focus();
});

words?.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  words.form.requestSubmit();
});

stop?.addEventListener("click", () => aborting?.abort());

anew?.addEventListener("click", () => {
  aborting?.abort();
  talk.replaceChildren();
  contextId = undefined;
  task = "";
  anew.hidden = true;
  complain("");
  words.focus();
});
