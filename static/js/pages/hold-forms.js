// A form that a page's script sends waits for the script. Otherwise the browser would submit it.

const hold = (event) => {
  const { target: form, submitter } = event;
  if (event.defaultPrevented || !form.matches("[data-plan-act], form.question")) return;
  event.preventDefault();
  document.addEventListener("DOMContentLoaded", () => form.requestSubmit(submitter), { once: true });
};
addEventListener("submit", hold);
document.addEventListener("DOMContentLoaded", () => removeEventListener("submit", hold));
