// The player: shows a session as it was at the scrubber's event, plays it, and forks from there.
import { h } from "../dom.js";
import { wholeTime } from "../format.js";
import { uuid } from "../requests.js";
import { apply, begin } from "../session/state.js";
import { drawMade } from "../session/made.js";
import { View } from "../session/view.js";
import { drawWork } from "../session/work.js";
import { drawWorked } from "../session/worked.js";
import { shortcut } from "../shell/shortcuts.js";
import { toast } from "../toast.js";

const $ = (id) => document.getElementById(id);
const MOST_DRAWN = 100; // messages in the page at a time
const LONGEST_GAP = 3000; // ms: long pauses are shortened to this
const NEAR = 48; // px from the end that count as the end
const FRAME = 16; // ms: events within this time are drawn together
const APART = 100; // events between two saved states
const AT_ONCE = 50; // events applied before the page may do something else

/** What each event of a session changed, loaded in pages and applied once; any event is then near a saved state. */
class Log {
  /** `beginning`: {entries (an address), last, agent}. `grown()` is called after each page. */
  constructor(beginning, grown) {
    Object.assign(this, { beginning, grown, steps: [], kept: [begin(beginning.agent)] });
    this.now = { index: 0, state: copyOf(this.kept[0]) };
  }

  /** The index of the last loaded event. Indexes have no gaps: step number N is event N + 1. */
  get loaded() {
    return this.steps.length;
  }

  /** Load the whole log. Throws what `fetch` throws; another call continues. */
  async load() {
    while (this.loaded < this.beginning.last) {
      const answer = await fetch(`${this.beginning.entries}?after=${this.loaded}`);
      if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
      const { steps } = await answer.json();
      if (!steps.length) return;
      await this.applyAll(steps);
      this.grown();
    }
  }

  /** Save a state at intervals, without blocking the page. */
  async applyAll(steps) {
    this.end ??= copyOf(this.kept[0]);
    for (let number = 0; number < steps.length; number += AT_ONCE) {
      for (const step of steps.slice(number, number + AT_ONCE)) {
        apply(this.end, step.patch);
        this.steps.push(step);
        if (this.loaded % APART === 0) this.kept.push(copyOf(this.end));
      }
      await new Promise((done) => setTimeout(done));
    }
  }

  /** The session as it was after event `index`, from the current or the nearest saved state. */
  at(index) {
    const nearest = Math.floor(index / APART);
    const isAhead = this.now.index <= index && this.now.index >= nearest * APART;
    const from = isAhead ? this.now.index : nearest * APART;
    const state = isAhead ? this.now.state : copyOf(this.kept[nearest]);
    for (const { patch } of this.steps.slice(from, index)) apply(state, patch);
    this.now = { index, state };
    return state;
  }

  /** What is said of event `index`: {type, at, isSaid}. */
  step(index) {
    return this.steps[index - 1];
  }

  /** Delivered artifacts, by key. */
  artifact(key) {
    return this.steps.flatMap(({ artifacts = [] }) => artifacts).find(({ taskId, artifactId }) => `${taskId}/${artifactId}` === key);
  }
}

/** A separate state: later changes do not affect the other one, because list items are never changed. */
function copyOf(state) {
  const copy = (value) => {
    if (Array.isArray(value)) return value.slice();
    if (value instanceof Map) return new Map(value);
    if (value instanceof Set) return new Set(value);
    return value && Object.getPrototypeOf(value) === Object.prototype ? { ...value } : value;
  };
  return Object.fromEntries(Object.entries(state).map(([name, value]) => [name, copy(value)]));
}

const beginning = JSON.parse($("beginning").textContent);
const place = $("place");
const view = Object.assign(new View($("items")), { drawMade, drawWork, drawWorked });
const log = new Log(beginning, () => wait && go(wait));
let index = 0;
let wait = 0; // an event that was requested before it was loaded
let playing = null; // the timer of the next event

// The position

function go(asked) {
  const to = Math.max(0, Math.min(asked, beginning.last));
  place.value = to;
  wait = to > log.loaded ? to : 0;
  if (wait) return tell(`Loading… ${Math.floor((100 * log.loaded) / to)} %`);
  if (to < index) undraw(); // the view can only go forward
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
  const isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR; // a reader who scrolled up stays there
  view.draw({ ...state, items: items.slice(-MOST_DRAWN) });
  for (const form of $("items").querySelectorAll("form, .credential")) form.inert = true;
  $("earlier-hidden").hidden = items.length <= MOST_DRAWN;
  $("nothing-yet").hidden = items.length > 0;
  $("fork").disabled = index === 0;
  const { type = "", at } = log.step(index) ?? {};
  tell(`Event ${index} of ${beginning.last}`, type, at);
  if (isAtEnd || !playing) $("transcript").scrollTop = $("transcript").scrollHeight;
}

function tell(words, type = "", at = "") {
  $("place-index").textContent = words;
  $("place-type").textContent = type;
  $("place-time").textContent = at && wholeTime(at);
  $("place-time").dateTime = at;
  place.setAttribute("aria-valuetext", [words, type].filter(Boolean).join(", "));
}

place.addEventListener("input", () => {
  pause();
  go(Number(place.value));
});

// Messages that one can jump to

function goToMessage(step) {
  pause();
  for (let to = index + step; to > 0 && to <= log.loaded; to += step) {
    if (log.step(to).isSaid) return go(to);
  }
  go(step < 0 ? 0 : log.loaded);
}

$("before").addEventListener("click", () => goToMessage(-1));
$("next").addEventListener("click", () => goToMessage(1));

// Playing: at the original speed, or faster

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
  const [before, after] = [log.step(number - 1), log.step(number)];
  const passed = before ? new Date(after.at) - new Date(before.at) : 0;
  return Math.min(Math.max(passed, 0), LONGEST_GAP) / Number($("speed").value);
}

function turn() {
  if (playing) pause();
  else play();
}

$("play").addEventListener("click", turn);

/** Keys keep the meaning that they have for the focused element. */
function isFree({ target }) {
  return !target.closest("button, a, select, summary, textarea, input:not([type=range])");
}

shortcut(" ", "Play or pause", (event) => isFree(event) && turn());
shortcut("ArrowRight", "Next event", (event) => stepped(event, 1));
shortcut("ArrowLeft", "Previous event", (event) => stepped(event, -1));
shortcut("shift+ArrowRight", "Next message", (event) => isFree(event) && goToMessage(1));
shortcut("shift+ArrowLeft", "Previous message", (event) => isFree(event) && goToMessage(-1));

function stepped(event, step) {
  if (!isFree(event) || event.target === place) return false; // the scrubber handles these keys itself
  pause();
  go(index + step);
}

// Actions from here

$("fork").addEventListener("click", async () => {
  pause();
  $("fork").disabled = true;
  try {
    const { api } = await import("../requests.js");
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
    toast("Part of the session could not be loaded.", { name: "Try again", run: load });
  }
}

$("play").disabled = !beginning.last;
go(Number(new URLSearchParams(location.search).get("at") ?? 0));
await load();
