// Examples: one click sends the example to the agent and opens the session.
import { post, uuid } from "../requests.js";

const LOST = "It may not have arrived. Choose it again when the line is back: it is not said twice.";
const buttons = document.querySelectorAll("[data-try]");
const problem = document.getElementById("try-problem");

for (const button of buttons) {
  button.addEventListener("click", async () => {
    button.dataset.message ??= uuid(); // a retry has the same id, so it is not sent twice
    const said = { message: button.dataset.message, text: button.querySelector(".words").textContent };
    for (const one of buttons) one.disabled = true;
    problem.hidden = true;
    try {
      const { session } = await post(button.dataset.try, said, LOST);
      delete button.dataset.message;
      location.assign(session);
    } catch (refusal) {
      problem.textContent = refusal.message;
      problem.hidden = false;
      for (const one of buttons) one.disabled = false;
      button.focus();
    }
  });
}

// A page restored by "back" works again.
addEventListener("pageshow", () => {
  for (const one of buttons) one.disabled = false;
});
