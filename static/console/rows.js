/* Rows of a form that are added and removed in place (`parley.faces.fields`). Without this, one blank row waits at the end. */

function add(rows) {
  const total = rows.querySelector(`[name="${rows.dataset.rows}-TOTAL_FORMS"]`);
  const blank = rows.querySelector("template").innerHTML.replaceAll("__prefix__", total.value);
  const button = rows.querySelector("[data-row-add]");
  total.value = Number(total.value) + 1;
  button.insertAdjacentHTML("beforebegin", blank);
  const row = button.previousElementSibling;
  row.querySelector("[data-row-remove]").hidden = false;
  row.querySelector("input, textarea")?.focus();
}

function remove(row) {
  const rows = row.closest("[data-rows]");
  row.remove(); // a row of which nothing is sent is none
  rows.querySelector("[data-row-add]").focus();
}

for (const rows of document.querySelectorAll("[data-rows]")) {
  for (const row of rows.querySelectorAll("[data-blank]")) row.remove();
  for (const button of rows.querySelectorAll("[data-row-add], [data-row-remove]")) button.hidden = false;
  rows.addEventListener("click", (event) => {
    if (event.target.closest("[data-row-add]")) add(rows);
    const button = event.target.closest("[data-row-remove]");
    if (button) remove(button.closest("[data-row]"));
  });
}
