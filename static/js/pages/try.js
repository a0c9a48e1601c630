// The console: a form that writes requests, and the traffic of sent ones.
import { copyText } from "../clipboard.js";
import { timeOfDay } from "../format.js";
import { asCurl, call, NoToken, OLD, OPERATIONS, requestOf, saidAnew, Token } from "./try/calls.js";
import { Exchange, parsed } from "./try/exchange.js";

const agent = JSON.parse(document.getElementById("trying").textContent);
const form = document.getElementById("try");
const [method, say, task, body, problem] = ["method", "say", "task", "body", "body-problem"].map((id) => document.getElementById(id));
const exchanges = document.getElementById("exchanges");
const token = new Token(agent.token);
let lastTask = "";

const version = () => form.elements.version.value;
const operation = () => OPERATIONS.find(({ name }) => name === method.value);

/** The methods of the chosen version, under its own names; keeps the chosen method if possible. */
function offerMethods() {
  const chosen = method.value || "SendStreamingMessage";
  const isOld = version() === OLD;
  const offered = OPERATIONS.filter((one) => (isOld ? one.old : one.name) && (agent.streams || !/Streaming|Subscribe/.test(one.name)));
  method.replaceChildren(...offered.map((one) => new Option(isOld ? one.old : one.name, one.name)));
  method.value = offered.some(({ name }) => name === chosen) ? chosen : offered[0].name;
}

function fitForm() {
  const { takes, hint } = operation();
  document.getElementById("method-hint").textContent = hint;
  document.getElementById("words-field").hidden = takes !== "words";
  document.getElementById("task-field").hidden = takes === "nothing";
  document.getElementById("task-optional").hidden = takes === "task";
  task.value = takes === "task" ? task.value || lastTask : "";
}

function write() {
  const request = requestOf(operation(), version(), { words: say.value, task: task.value.trim() });
  body.value = JSON.stringify(request, null, 2);
  check();
}

/** Changed words or tasks go into the request; other edits of the request stay. */
function patch() {
  const request = parsed(body.value);
  const message = request?.params?.message;
  const [part] = message?.parts ?? [];
  if (operation().takes === "words" && part && "text" in part) {
    part.text = say.value;
    if (task.value.trim()) message.taskId = task.value.trim();
    else delete message.taskId;
  } else if (operation().takes === "task" && request?.params) {
    request.params.id = task.value.trim();
  } else {
    return write();
  }
  body.value = JSON.stringify(request, null, 2);
  check();
}

/** Is it JSON? If not, the sentence says so. */
function check() {
  let sentence = "";
  try {
    JSON.parse(body.value);
  } catch (error) {
    sentence = `This is not valid JSON: ${error.message}.`;
  }
  if (problem.textContent !== sentence) problem.textContent = sentence;
  if (sentence) body.setAttribute("aria-invalid", "true");
  else body.removeAttribute("aria-invalid");
  return !sentence;
}

function announce(sentence) {
  document.getElementById("try-said").textContent = sentence;
}

const headersOf = (text) => ({
  "Content-Type": "application/json",
  Accept: "application/json, text/event-stream",
  "A2A-Version": version(),
  Authorization: `Bearer ${text}`,
});

async function send(text) {
  let bearer;
  try {
    bearer = await token.get();
  } catch (error) {
    if (!(error instanceof NoToken)) throw error;
    problem.textContent = error.message;
    return;
  }
  tellOfToken();
  const headers = headersOf(bearer);
  const aborting = new AbortController();
  const exchange = new Exchange({ method: parsed(text)?.method, version: headers["A2A-Version"], path: agent.path, headers, body: text }, {
    stop: () => aborting.abort(),
    cancel,
    copy: copyText,
    curl: () => copyText(asCurl(agent.endpoint, headers, text)),
  });
  show(exchange);
  await hear(exchange, headers, text, aborting.signal);
}

async function hear(exchange, headers, text, signal) {
  try {
    await call(agent.path, { headers, body: text, signal, heard: exchange });
    exchange.end();
  } catch {
    exchange.end(signal.aborted ? STOPPED : BROKEN);
  }
  lastTask = exchange.task ?? lastTask;
  if (operation().takes === "task" && !task.value) {
    task.value = lastTask;
    patch();
  }
  announce(`${exchange.request.method}: ${exchange.outcome}. ${exchange.note.textContent}`);
}

const STOPPED = "You stopped reading. The agent continues.";
const BROKEN = "The connection was lost. The agent continues. Use GetTask to see its state.";

function cancel(id) {
  const canceling = OPERATIONS.find(({ name }) => name === "CancelTask");
  send(JSON.stringify(requestOf(canceling, version(), { task: id }), null, 2));
}

function show(exchange) {
  document.getElementById("traffic-nothing").hidden = true;
  document.getElementById("clear").hidden = false;
  exchanges.prepend(exchange.element);
  if (matchMedia("(width < 1000px)").matches) exchange.element.scrollIntoView({ block: "start" });
}

function tellOfToken() {
  const until = timeOfDay(token.expires);
  document.getElementById("token-state").textContent = `The token works only for ${agent.name}, until ${until} or until you sign out.`;
  document.getElementById("copy-token").hidden = false;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!check()) return body.focus();
  send(body.value);
  const sent = parsed(body.value);
  if (sent && typeof sent === "object" && !Array.isArray(sent)) body.value = JSON.stringify(saidAnew(sent), null, 2);
});
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
for (const chooser of [method, ...form.elements.version]) {
  chooser.addEventListener("change", () => {
    if (chooser !== method) offerMethods();
    fitForm();
    write();
  });
}
for (const field of [say, task]) field.addEventListener("input", patch);
body.addEventListener("input", check);
document.getElementById("anew").addEventListener("click", write);
document.getElementById("as-curl").addEventListener("click", () => copyText(asCurl(agent.endpoint, headersOf(""), body.value)));
document.getElementById("copy-token").addEventListener("click", () => copyText(token.text));
document.getElementById("clear").addEventListener("click", ({ target }) => {
  exchanges.replaceChildren();
  target.hidden = true;
  document.getElementById("traffic-nothing").hidden = false;
  method.focus();
});

say.value = agent.words;
offerMethods();
fitForm();
write();
