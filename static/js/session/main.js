// A conversation's page: what the server began it with, what comes over the line, and what the person does.
import { Composer } from "../composer.js";
import { h, sign, uuid } from "../dom.js";
import { Refused, post } from "../post.js";
import { announce } from "./announcer.js";
import { End } from "./end.js";
import { Line } from "./line.js";
import { Panel } from "./panel.js";
import { Questions } from "./questions.js";
import { addressedTask, begin, busyTask, reduce, waitingTask } from "./reducer.js";
import { View } from "./view.js";

const $ = (id) => document.getElementById(id);
const beginning = JSON.parse($("beginning").textContent);

let entries = beginning.entries; // of the log, as far back as the page goes
let first = beginning.first;
let state = entries.reduce(reduce, begin(beginning.artifacts, beginning.agent));
state = { ...state, last: beginning.last };

const end = new End($("transcript"), $("to-end"));
const panel = new Panel($("panel"));
const unsent = new Map(); // messages that the log has not confirmed, by id
const view = new View($("items"), {
  artifactOf: (key) => state.artifacts[key],
  openArtifact: (key) => panel.show(key),
  again,
  rate: beginning.rate,
  ratingOf: (taskId) => state.ratings[taskId] ?? 0,
  retry: (id) => deliver(unsent.get(id)),
});
const composer = new Composer($("composer"), (message) => {
  const task = addressedTask(state);
  const form = new FormData();
  form.append("message", message.id);
  form.append("text", message.text);
  if (task) form.append("task", task.id);
  for (const file of message.files) form.append("files", file, file.name);
  deliver({ ...message, form, giveBack: (sentence) => composer.giveBack(message, sentence) });
});
const questions = new Questions($("items"), deliver);

// Drawing: at most once a frame, and at once where nobody looks (a page in the background gets no frames)

let due = false;

function draw() {
  due = false;
  view.draw(state.items);
  panel.draw(state.artifacts);
  drawHead();
  end.added();
  questions.focusNewest();
}

function drawSoon() {
  if (due) return;
  due = true;
  if (document.hidden) setTimeout(draw, 250);
  else requestAnimationFrame(draw);
}

function drawHead() {
  const waiting = waitingTask(state);
  const busy = busyTask(state);
  const [look, word] = waiting ? ["waiting", "Waiting for you"] : busy ? ["working", "Working"] : [null, ""];
  $("head-state").replaceChildren(...(look ? [sign(look), h("span", { class: "word" }, word)] : []));
  const stop = composer.form.querySelector(".stop");
  stop.hidden = !(busy ?? waiting);
  const addressed = addressedTask(state);
  const answers = waiting && addressed?.id === waiting.id;
  const shut = Boolean(answers && waiting.wantsCredential); // a key that is written here would be part of the conversation
  composer.shut(shut);
  const { name } = answers ? (waiting.agent ?? state.agent) : state.agent;
  composer.words.placeholder = shut ? "Use the button above" : answers ? `Answer ${name}…` : `Message ${name}…`;
  composer.form.querySelector(".composer-hint").textContent =
    addressed && addressed === busy ? "What you send now is read after this step" : "";
  if (state.title) {
    $("title").textContent = state.title;
    document.title = `${state.title} · Parley`;
  }
  const beside = document.querySelector("[data-this-session] .sign");
  const tasks = Object.values(state.tasks);
  if (beside && tasks.length) beside.replaceWith(sign(LOOKS[tasks.at(-1).state] ?? "none", tasks.at(-1).state));
}

const LOOKS = {
  submitted: "working", working: "working", "input-required": "waiting", "auth-required": "waiting",
  completed: "done", failed: "failed", rejected: "failed", canceled: "canceled",
};

// What comes in

function take(news) {
  const fresh = news.filter((entry) => entry.index > state.last);
  entries = entries.concat(fresh);
  state = fresh.reduce(reduce, state);
  for (const entry of fresh) if (entry.type === "user_message") unsent.delete(entry.message.messageId);
  announce($("announcer"), state, fresh);
  if (fresh.some(({ type }) => type === "agent_switched")) drawAgent();
  if (fresh.length) drawSoon();
}

new Line(beginning.line, { after: () => state.last, heard: take, changed: showLine });

function showLine(name) {
  const note = $("line-state");
  note.hidden = name === "live";
  if (name === "lost") note.replaceChildren("The line is lost. Reconnecting…");
  if (name === "gone") note.replaceChildren("This session is no longer there.");
  if (name === "signed-out") {
    const back = `/sign-in?next=${encodeURIComponent(location.pathname)}`;
    note.replaceChildren("You are signed out. ", h("a", { href: back }, "Sign in again"));
  }
}

$("earlier").hidden = first <= 1;
$("earlier").addEventListener("click", async () => {
  $("earlier").disabled = true;
  try {
    const answer = await fetch(`${beginning.earlier}?before=${first}`);
    const older = await answer.json();
    first = older.first;
    entries = older.entries.concat(entries);
    const local = state.items.filter((item) => item.pending);
    const { last } = state;
    state = entries.reduce(reduce, begin(beginning.artifacts, beginning.agent));
    state = { ...state, last, items: state.items.concat(local) };
    end.keep(() => view.draw(state.items));
    $("earlier").hidden = first <= 1;
  } finally {
    $("earlier").disabled = false;
  }
});

// What the person does

/**
 * Send a message; until the log has it, it is shown pale.
 * `message`: {id, text, files, form, giveBack(sentence), unreached?()}.
 */
async function deliver(message) {
  unsent.set(message.id, message);
  const parts = [
    ...(message.text ? [{ kind: "data", values: [{ name: "", value: message.text }] }] : []),
    ...message.files.map((file) => ({ kind: "file", name: file.name, size: file.size, mediaType: file.type })),
  ];
  apply({ type: "local:sending", messageId: message.id, text: message.text, parts, at: new Date().toISOString() });
  end.go();
  try {
    await post(message.address ?? beginning.say, message.form);
  } catch (problem) {
    if (problem instanceof Refused) {
      unsent.delete(message.id);
      apply({ type: "local:taken-back", messageId: message.id });
      message.giveBack(problem.message);
    } else {
      message.unreached?.();
      apply({ type: "local:unsent", messageId: message.id, sentence: problem.message });
    }
  }
}

function apply(entry) {
  state = reduce(state, entry);
  drawSoon();
}

function again(taskId) {
  const opening = state.items.find((item) => item.messageId === state.tasks[taskId]?.opensWith);
  const id = uuid();
  const form = new FormData();
  form.append("message", id);
  form.append("task", taskId);
  deliver({
    id, form, address: beginning.again, text: opening?.text ?? "", files: [],
    giveBack: (sentence) => composer.complain(sentence),
  });
}

// Another agent

function drawAgent() {
  $("with").textContent = `with ${state.agent.name}`;
  $("with").href = `/agents/${state.agent.slug}`;
  for (const choice of document.querySelectorAll("[data-switch]")) {
    choice.hidden = choice.dataset.switch === state.agent.slug;
  }
}

for (const choice of document.querySelectorAll("[data-switch]")) {
  choice.addEventListener("click", async () => {
    $("switch-to").hidePopover();
    const form = new FormData();
    form.append("agent", choice.dataset.switch);
    $("switch").disabled = true;
    try {
      await post(beginning.switch, form); // the line brings what it changed
    } catch (problem) {
      composer.complain(problem.message);
    } finally {
      $("switch").disabled = false;
      composer.words.focus();
    }
  });
}

const stop = composer.form.querySelector(".stop");
stop.addEventListener("click", async () => {
  const task = busyTask(state) ?? waitingTask(state);
  if (!task) return;
  const form = new FormData();
  form.append("task", task.id);
  stop.disabled = true;
  try {
    await post(beginning.stop, form);
  } catch (problem) {
    if (problem.status !== 409) composer.complain(problem.message); // it ended by itself: the page shows how
  } finally {
    stop.disabled = false;
    composer.words.focus();
  }
});

draw();
end.go();
view.tick();
if (!document.querySelector(".question")) composer.words.focus();
