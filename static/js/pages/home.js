// Something to try: one click says it to the agent, and leads to the session.
import { post, uuid } from "../requests.js";

const LOST = "It may not have arrived. Choose it again when the line is back: it is not said twice.";
const buttons = document.querySelectorAll("[data-try]");
const problem = document.getElementById("try-problem");

for (const button of buttons) {
  button.addEventListener("click", async () => {
    button.dataset.message ??= uuid(); // chosen again where it was not heard, it is not said twice
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

// A page that the browser kept (after "back") is as good as new.
addEventListener("pageshow", () => {
  for (const one of buttons) one.disabled = false;
});
