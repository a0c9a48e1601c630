// Answers an agent's questions in its session, by the server's forms.
import { clear, complain, forgetAnswer, keepAnswer, keepAnswers, read } from "../question-form.js";

export function start(page) {
  const items = document.getElementById("items");
  items.addEventListener("input", () => keepAnswers(items));
  keepAnswers(items); // somebody began to fill in a form
  items.addEventListener("submit", (event) => {
    if (!event.target.matches("form.question")) return;
    event.preventDefault();
    if (!event.target.matches(".approval")) answer(page, event.target, event.submitter);
  });
}

function answer(page, form, submitter) {
  const said = read(form, submitter);
  if (!said) return;
  forgetAnswer(form); // the message is kept separately
  form.inert = true; // until the log has the answer, or it is refused
  const { scroller } = page.end;
  scroller.focus({ preventScroll: true }); // an inert element would lose the focus
  const giveBack = (sentence, field) => {
    form.inert = false;
    keepAnswer(form);
    if (document.activeElement === scroller) form.querySelector("button").focus({ preventScroll: true });
    if (sentence) complain(form, sentence, field);
    else clear(form);
  };
  page.deliver({ ...said, giveBack, unreached: () => giveBack("") });
}
