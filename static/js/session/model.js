// The model of the session, chosen in the composer.
import { post } from "../requests.js";

const LOST = "The model was not changed. Try again when you are back online.";

export function start(page) {
  const picker = document.getElementById("model");
  const changed = async () => {
    try {
      await post(page.beginning.switch, { agent: page.state.agent.slug, model: picker.value }, LOST);
      page.announce(`${picker.selectedOptions[0].textContent} answers from now on.`);
    } catch (problem) {
      for (const option of picker.options) option.selected = option.defaultSelected;
      page.complain(problem.message);
    }
  };
  picker.addEventListener("change", changed);
  changed(); // why this module was loaded
}
