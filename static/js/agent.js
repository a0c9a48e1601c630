// The first message to an agent: it opens a session, and the page goes there.
import { Composer } from "./composer.js";
import { post } from "./post.js";
import { formOf } from "./unsent.js";

const form = document.getElementById("composer");
const button = form.querySelector(".send");
const hint = form.querySelector(".composer-hint");

const composer = new Composer(form, async (message) => {
  button.disabled = true;
  hint.textContent = "Sending…";
  localStorage.setItem(composer.draft, message.text); // until the server has it
  try {
    const { session } = await post(form.action, await formOf(message.said));
    localStorage.removeItem(composer.draft);
    location.assign(session);
  } catch (problem) {
    composer.giveBack(message, problem.message);
    hint.textContent = "";
    button.disabled = false;
  }
});

function fill(words) {
  composer.write(words);
  composer.words.focus();
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
  hint.textContent = "";
});
