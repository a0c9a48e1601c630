// Home: the composer of a new session, the choice of its agent, and examples, which are sent by one click.
import { Beginning } from "../compose/beginning.js";
import { safe } from "../dom.js";
import { uuid } from "../requests.js";

const form = document.getElementById("composer");
const tries = document.getElementById("tries");
const picker = document.getElementById("agent-picker");
const beginning = new Beginning(form, "new:");
const { words } = beginning.composer;

/** `option` of the palette. A reload keeps the agent, by the address. */
function choose(option) {
  const slug = option.dataset.href.split("/")[2];
  const { agent: name, takes, takesWords, accept } = option.dataset;
  form.action = `/agents/${slug}/messages`;
  Object.assign(form.querySelector(".composer-field").dataset, { agent: name, takes, takesWords });
  form.querySelector("#files").accept = accept;
  const models = option.querySelector(".models");
  form.querySelector(".model-picker").replaceChildren(...(models?.content.cloneNode(true).children ?? []));
  form.querySelector(".model-picker").hidden = !models;
  picker.querySelector(".avatar").replaceWith(option.querySelector(".avatar").cloneNode(true));
  picker.querySelector(".name").textContent = name;
  form.querySelector("label[for=words]").textContent = `Message ${name}`;
  words.placeholder = `Message ${name}…`;
  beginning.composer.complain("");
  history.replaceState(null, "", `/?agent=${slug}`);
  words.focus();
  showStarters(slug);
}

/** The starter questions of the agent that is chosen now. */
async function showStarters(slug) {
  const answer = await fetch(`/?agent=${slug}&part=tries`).catch(() => null);
  if (answer?.ok && !answer.redirected && location.search === `?agent=${slug}`) safe(tries, await answer.text());
}

document.addEventListener("agent-chosen", ({ detail }) => choose(detail));

tries.addEventListener("click", async ({ target }) => {
  const example = target.closest("[data-try]");
  if (!example || example.ariaBusy) return;
  const [id, text] = [uuid(), example.querySelector(".words").textContent];
  example.ariaBusy = "true"; // a second click would send it twice
  await beginning.send({ id, text, files: [], said: [["message", id], ["text", text]] }, example.dataset.try);
  example.ariaBusy = null;
});

const about = new URLSearchParams(location.search);
if (about.has("shared") || about.has("text")) import("../compose/shared.js").then(({ takeShared }) => takeShared(beginning.composer, about), () => {});

// On a touch screen the keyboard would cover the page.
if (document.activeElement === document.body && !matchMedia("(pointer: coarse)").matches) words.focus();
