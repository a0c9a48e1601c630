// The first message to an agent: it opens a session, and the page goes there.
import { Composer } from "./composer.js";
import { post } from "./post.js";

const form = document.getElementById("composer");
const button = form.querySelector(".send");
const hint = form.querySelector(".composer-hint");

const composer = new Composer(form, async (message) => {
  const said = new FormData();
  said.append("message", message.id);
  said.append("text", message.text);
  for (const file of message.files) said.append("files", file, file.name);
  button.disabled = true;
  hint.textContent = "Sending…";
  try {
    const { session } = await post(form.action, said);
    location.assign(session);
  } catch (problem) {
    composer.giveBack(message, problem.message);
    hint.textContent = "";
    button.disabled = false;
  }
});
composer.words.focus();

for (const example of document.querySelectorAll("[data-example]")) {
  example.addEventListener("click", () => {
    composer.words.value = example.textContent;
    composer.grow();
    composer.words.focus();
  });
}

// A page that the browser kept (after "back") is as good as new.
addEventListener("pageshow", () => {
  button.disabled = false;
  hint.textContent = "";
});
