// Sentences to try below an answer: each begins a session with its agent.
import { LOST } from "../compose/composer.js";
import { post, uuid } from "../requests.js";

export function start(page) {
  document.getElementById("items").addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-begin]");
    if (!button || button.ariaBusy) return;
    const said = { message: uuid(), text: button.querySelector(".words").textContent };
    button.ariaBusy = "true"; // a second click would send it twice
    try {
      location.assign((await post(button.dataset.begin, said, LOST)).session);
    } catch (problem) {
      page.complain(problem.message);
    } finally {
      button.ariaBusy = null;
    }
  });
}
