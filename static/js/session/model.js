// The model of the session, chosen in the composer.
import { persist } from "../requests.js";

const LOST = "The model was not changed. Try again when you are back online.";

export function start(page) {
  const picker = document.getElementById("model");
  const changed = async () => {
    try {
      const { session } = await persist("GET", `/sessions/${page.id}?include=artifacts`, undefined, LOST);
      const options = { ...session.metadata.options, model: picker.value };
      await persist("PATCH", `/sessions/${page.id}`, { options }, LOST);
      page.announce(`${picker.selectedOptions[0].textContent} answers from now on.`);
    } catch (problem) {
      for (const option of picker.options) option.selected = option.defaultSelected;
      page.complain(problem.message);
    }
  };
  picker.addEventListener("change", changed);
  changed(); // why this module was loaded
}
