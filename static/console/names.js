/* Names for screen readers that the widgets of Django and the theme lack. */

/** Fields that script draws over a select (select2): the name of the select's label, and what is chosen. */
function nameChoosers(root) {
  for (const select of root.querySelectorAll("select.select2-hidden-accessible")) {
    const [label] = select.labels;
    const drawn = select.nextElementSibling;
    if (!label || !drawn) continue;
    label.id ||= `${select.id}-label`;
    const shown = drawn.querySelector("[role=textbox]");
    drawn.querySelector("[role=combobox]")?.setAttribute("aria-labelledby", [label.id, shown?.id].filter(Boolean).join(" "));
    for (const field of drawn.querySelectorAll("[role=textbox], input")) field.setAttribute("aria-labelledby", label.id);
  }
}

/** Dates with a time are two fields with one label. */
function nameDates(root) {
  for (const field of root.querySelectorAll("input:is(.vDateField, .vTimeField)")) {
    const label = root.querySelector(`label[for="${field.id.replace(/_\d$/, "")}_0"], label[for="${field.id.replace(/_\d$/, "")}"]`);
    field.ariaLabel ??= [label?.textContent.replace("*", "").trim(), field.placeholder].filter(Boolean).join(", ");
  }
}

function name() {
  nameChoosers(document);
  nameDates(document);
  for (const help of document.querySelectorAll("span.help-tooltip[aria-label]:not([role])")) help.role = "img";
}

// These widgets are drawn by scripts, some of them later
const form = document.querySelector("form:has(.admin-autocomplete, .selectfilter, .vDateField, .vTimeField)");
if (form) {
  name();
  new MutationObserver(name).observe(form, { childList: true, subtree: true });
}
