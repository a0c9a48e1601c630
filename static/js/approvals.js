// The card of a tool call, in its session and in lists. Only a person decides: a script's click is none, and the server wants a token
// that is fetched when the button is pressed.
import { complain, forgetAnswer } from "./question-form.js";
import { post, postOnce } from "./requests.js";

const NOT_PRESSED = "Press the button yourself: nothing on the page may decide for you.";

/** `decided(form, button)` is called when a person presses a button of a card. */
export function watchCards(place, decided) {
  place.addEventListener("click", (event) => {
    const button = event.target.closest(".approval [name='answer-decision']");
    if (!button) return;
    event.preventDefault();
    if (event.isTrusted && navigator.userActivation?.isActive !== false) decided(button.form, button);
    else complain(button.form, NOT_PRESSED);
  });
}

/** Send the decision. Throws Refused, Unreachable. */
export async function decide(form, button) {
  const said = new FormData(form);
  said.append(button.name, button.value);
  const address = form.dataset.decide;
  const { token } = await post(`${address}/token`, said);
  said.append("token", token);
  await postOnce(address, said);
  forgetAnswer(form);
}

/** A field that is wrong must be seen. */
export function complainAbout(form, { message, field }) {
  if (field) form.querySelector("details")?.setAttribute("open", "");
  complain(form, message, field);
}
