// An agent's page: the first message to it, which opens a session.
import "../clipboard.js"; // for its buttons
import { Beginning } from "../compose/beginning.js";
import { toast } from "../toast.js";

const { composer } = new Beginning(document.getElementById("composer"), `new:${location.pathname.split("/")[2]}`);

/** An example does not replace written words. */
function fill(words) {
  const before = composer.words.value;
  composer.write(words);
  if (words || matchMedia("(pointer: fine)").matches) composer.words.focus(); // no keyboard over the page of a phone
  if (!before.trim() || before === words) return;
  toast("Your text was replaced by the example.", { name: "Undo", run: () => composer.write(before) });
}

// An example chosen in the list of agents fills the composer; an address never sends anything.
fill(document.getElementById("main").dataset.words || composer.words.value);

document.addEventListener("click", (event) => {
  const example = event.target.closest("[data-example]");
  if (example) fill(example.textContent);
});
