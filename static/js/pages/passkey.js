// A passkey that was refused, or that the reader did not choose: the page says so (django-allauth only logs it).
document.addEventListener("allauth.error", (event) => {
  event.preventDefault();
  const problem = document.getElementById("passkey-problem");
  if (problem) problem.hidden = false;
});
