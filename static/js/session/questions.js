// An agent's questions in its session: forms that the server made, answered there.
import { clear, complain, read } from "../answering.js";
import { followAll, forget, keep } from "../filled.js";

export function start(page) {
  const items = document.getElementById("items");
  items.addEventListener("input", () => followAll(items));
  followAll(items); // somebody began to fill one in
  items.addEventListener("submit", (event) => {
    if (!event.target.matches("form.question")) return;
    event.preventDefault();
    answer(page, event.target);
  });
}

function answer(page, form) {
  const said = read(form);
  if (!said) return;
  forget(form); // the message is kept by itself
  form.inert = true; // until the log has the answer, or it is given back
  const { scroller } = page.end;
  scroller.focus({ preventScroll: true }); // what is inert would lose the focus
  const giveBack = (sentence, field) => {
    form.inert = false;
    keep(form);
    if (document.activeElement === scroller) form.querySelector("button").focus({ preventScroll: true });
    if (sentence) complain(form, sentence, field);
    else clear(form);
  };
  page.deliver({ ...said, giveBack, unreached: () => giveBack("") });
}
