/* The page of a model connection: tests what the form says, and suggests the models that the endpoint lists. */

const box = document.querySelector("[data-connection-test]");
const button = box.querySelector("button");
const told = box.querySelector("output");
const form = box.closest("form");
const SENT = ["provider", "base_url", "key", "model", "csrfmiddlewaretoken"];

function say(text, isOk) {
  const words = document.createElement("span");
  words.className = isOk ? "right" : "wrong";
  words.textContent = text;
  told.replaceChildren(words);
}

function suggest(models) {
  const options = models.map((name) => Object.assign(document.createElement("option"), { value: name }));
  document.querySelector("#known-models").replaceChildren(...options);
}

async function test() {
  const body = new FormData();
  body.set("id", box.dataset.connection);
  for (const name of SENT) body.set(name, form.elements[name].value);
  told.textContent = "Testing…";
  button.disabled = true;
  try {
    const response = await fetch(box.dataset.connectionTest, { method: "POST", body });
    if (!response.ok) throw new Error();
    const found = await response.json();
    say(found.sentence, found.ok);
    if (found.models.length) suggest(found.models);
    if (found.private) form.elements.allow_private.focus();
  } catch {
    say("The test could not be made: Parley does not answer, or you are signed out. Load the page again.", false);
  } finally {
    button.disabled = false;
  }
}

button.addEventListener("click", test);
