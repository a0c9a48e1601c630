// The sides of a comparison: which one a narrow page shows, and links that leave their frames.
const sides = [...document.querySelectorAll(".comparing-side")];
const tabs = [...document.querySelectorAll(".comparing-tabs button")];

function show(number) {
  for (const side of sides) side.classList.toggle("is-shown", side.dataset.side === number);
  for (const tab of tabs) tab.setAttribute("aria-pressed", String(tab.dataset.side === number));
}

for (const tab of tabs) tab.addEventListener("click", () => show(tab.dataset.side));

/** A link to another page opens it in place of this one. */
function leave({ target }) {
  const link = target.closest("a[href]");
  if (link && !link.target && !link.download && !link.getAttribute("href").startsWith("#")) link.target = "_top";
}

for (const frame of document.querySelectorAll(".comparing-side iframe")) {
  const listen = () => frame.contentDocument.addEventListener("click", leave, { capture: true });
  frame.addEventListener("load", listen);
  if (frame.contentDocument?.readyState === "complete") listen();
}
