// The first message to an agent: it opens a session, and the page goes there.
import { Composer } from "./composer.js";
import { post, Unreachable } from "./post.js";
import { toast } from "./toast.js";
import { formOf } from "./unsent.js";

const form = document.getElementById("composer");
const button = form.querySelector(".send");
const PATIENCE = 300_000; // ms that it may take

let unheard = null; // what was sent, and may have arrived all the same

const composer = new Composer(form, async (message) => {
  button.disabled = true;
  const away = toast("Sending…", { stays: PATIENCE });
  localStorage.setItem(composer.draft, message.text); // until the server has it
  if (isSame(message, unheard)) message.said[0] = unheard.said[0]; // its id: it is not said twice
  try {
    const { session } = await post(form.action, await formOf(message.said));
    unheard = null;
    localStorage.removeItem(composer.draft);
    location.assign(session);
  } catch (problem) {
    unheard = problem instanceof Unreachable ? message : null;
    composer.giveBack(message, problem.message);
    button.disabled = false;
  }
  away();
});

function isSame(one, other) {
  const isPlain = (message) => message.said.length === 2; // its id, and its words
  return other !== null && isPlain(one) && isPlain(other) && one.text === other.text;
}

/** What was written is not lost to an example. */
function fill(words) {
  const before = composer.words.value;
  composer.write(words);
  composer.words.focus();
  if (!before.trim() || before === words) return;
  toast("The example took the place of what you wrote.", { name: "Undo", run: () => composer.write(before) });
}

// An example that was chosen where agents are listed is written already; nothing is sent by an address alone.
fill(document.getElementById("main").dataset.words || composer.words.value);

document.addEventListener("click", (event) => {
  const example = event.target.closest("[data-example]");
  if (example) fill(example.textContent);
  const copies = event.target.closest("[data-copy]");
  if (copies) copyFrom(document.getElementById(copies.dataset.copy));
});

async function copyFrom(element) {
  const { copyText } = await import("./copying.js");
  copyText(element.textContent);
}

// A page that the browser kept (after "back") is as good as new.
addEventListener("pageshow", () => {
  button.disabled = false;
});
