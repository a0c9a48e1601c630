// The player: shows a session as it was at the event that the scrubber stands at, plays it, and forks from there.
import { h } from "./dom.js";
import { uuid } from "./ids.js";
import { Log } from "./replay/log.js";
import { View } from "./session/view.js";
import { drawWork } from "./session/work.js";
import { drawWorked } from "./session/worked.js";
import { shortcut } from "./shortcuts.js";
import { toast } from "./toast.js";

const $ = (id) => document.getElementById(id);
const MOST_DRAWN = 100; // messages in the page at a time
const LONGEST_GAP = 3000; // ms: who watches need not wait as long as it took
const NEAR = 48; // px from the end that still count as being there
const FRAME = 16; // ms: what happened within one is drawn as one

const beginning = JSON.parse($("beginning").textContent);
const place = $("place");
const view = Object.assign(new View($("items")), { drawWork, drawWorked });
const log = new Log(beginning, () => wait && go(wait));
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
let index = 0;
let wait = 0; // the event that was asked for before it was loaded
let playing = null; // the timer of the next event

// Where one is

function go(asked) {
  const to = Math.max(0, Math.min(asked, beginning.last));
  place.value = to;
  wait = to > log.loaded ? to : 0;
  if (wait) return tell(`Loading… ${Math.floor((100 * log.loaded) / to)} %`);
  if (to < index) undraw(); // the view only knows how things go on
  index = to;
  draw();
}

function undraw() {
  view.drawn.clear();
  $("items").replaceChildren();
}

function draw() {
  const { items, ...state } = log.at(index);
  const { scrollHeight, scrollTop, clientHeight } = $("transcript");
  const isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR; // who reads further up stays there
  view.draw({ ...state, items: items.slice(-MOST_DRAWN) });
  for (const form of $("items").querySelectorAll("form, .credential")) form.inert = true;
  $("earlier-hidden").hidden = items.length <= MOST_DRAWN;
  $("nothing-yet").hidden = items.length > 0;
  $("fork").disabled = index === 0;
  const { type = "", at } = log.entry(index) ?? {};
  tell(`Event ${index} of ${beginning.last}`, type, at);
  if (isAtEnd || !playing) $("transcript").scrollTop = $("transcript").scrollHeight;
}

function tell(words, type = "", at = "") {
  $("place-index").textContent = words;
  $("place-type").textContent = type;
  $("place-time").textContent = at && clock.format(new Date(at));
  $("place-time").dateTime = at;
  place.setAttribute("aria-valuetext", [words, type].filter(Boolean).join(", "));
}

place.addEventListener("input", () => {
  pause();
  go(Number(place.value));
});

// What is said by somebody, and so is worth going to

const SPOKEN = new Set(["user_message", "agent_message"]);

function isSaid(entry) {
  return SPOKEN.has(entry.type) || Boolean(entry.message && !entry.progress);
}

function goToMessage(step) {
  pause();
  for (let to = index + step; to > 0 && to <= log.loaded; to += step) {
    if (isSaid(log.entry(to))) return go(to);
  }
  go(step < 0 ? 0 : log.loaded);
}

$("before").addEventListener("click", () => goToMessage(-1));
$("next").addEventListener("click", () => goToMessage(1));

// Playing: in its own time, or faster

function play() {
  if (index >= beginning.last) go(0);
  $("play-word").textContent = "Pause";
  next();
}

function pause() {
  clearTimeout(playing);
  playing = null;
  $("play-word").textContent = "Play";
}

function next() {
  if (index >= log.loaded) return log.loaded < beginning.last ? (playing = setTimeout(next, 200)) : pause();
  let [to, gap] = [index, 0];
  while (to < log.loaded && gap < FRAME) gap += pauseBefore(++to);
  playing = setTimeout(() => {
    go(to);
    next();
  }, gap);
}

function pauseBefore(number) {
  const [before, after] = [log.entry(number - 1), log.entry(number)];
  const passed = before ? new Date(after.at) - new Date(before.at) : 0;
  return Math.min(Math.max(passed, 0), LONGEST_GAP) / Number($("speed").value);
}

function turn() {
  if (playing) pause();
  else play();
}

$("play").addEventListener("click", turn);

/** Keys that mean something else to what has the focus keep that. */
function isFree({ target }) {
  return !target.closest("button, a, select, summary, textarea, input:not([type=range])");
}

shortcut(" ", "Play or pause", (event) => isFree(event) && turn());
shortcut("ArrowRight", "Next event", (event) => stepped(event, 1));
shortcut("ArrowLeft", "Event before", (event) => stepped(event, -1));
shortcut("shift+ArrowRight", "Next message", (event) => isFree(event) && goToMessage(1));
shortcut("shift+ArrowLeft", "Message before", (event) => isFree(event) && goToMessage(-1));

function stepped(event, step) {
  if (!isFree(event) || event.target === place) return false; // the scrubber steps by itself
  pause();
  go(index + step);
}

// What can be done from here

$("fork").addEventListener("click", async () => {
  pause();
  $("fork").disabled = true;
  try {
    const { api } = await import("./api.js");
    const { session } = await api("POST", `/sessions/${beginning.session}/fork`, { at: index }, { key: uuid() });
    location.assign(`/sessions/${session.id}`);
  } catch (problem) {
    toast(problem.message);
    $("fork").disabled = false;
  }
});

$("items").addEventListener("click", ({ target }) => {
  const chip = target.closest("[data-artifact]");
  const { href, elsewhere } = (chip && log.artifact(chip.dataset.artifact)?.parts[0]) ?? {};
  const away = elsewhere ? { target: "_blank", rel: "noopener noreferrer nofollow" } : { download: true };
  if (href) h("a", { href, ...away }).click();
});

async function load() {
  try {
    await log.load();
  } catch {
    toast("Not all of the session could be loaded.", { name: "Try again", run: load });
  }
}

$("play").disabled = !beginning.last;
go(Number(new URLSearchParams(location.search).get("at") ?? 0));
await load();
