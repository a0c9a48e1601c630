/** Shows only the fields that the chosen kind of check needs. */

const form = document.getElementById("guardrail-form");

function showFields() {
  for (const part of form.querySelectorAll("[data-check]")) part.hidden = part.dataset.check !== form.elements.check_kind.value;
}

form.elements.check_kind.addEventListener("change", showFields);
showFields();
