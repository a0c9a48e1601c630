// A prompt's page: begins a session with its text.
import { complain, read } from "../question-form.js";
import { post } from "../requests.js";

const form = document.getElementById("start");

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const said = form.ariaBusy ? null : read(form);
  if (!said) return;
  form.ariaBusy = "true";
  try {
    location.assign((await post(form.action, said.form, "What you wrote is kept here.")).address);
  } catch (problem) {
    complain(form, problem.message, problem.field);
    form.ariaBusy = null;
  }
});
if (form) form.querySelector("[type=submit]").disabled = false;
