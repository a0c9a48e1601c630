// Without a line: every page says so at once, and what waits in this browser is sent as soon as it is back, also what was
// written on a page that is closed by now.

/** `sidebar` says by its `data-line` how the page's line is; a conversation's page has a note of its own. */
export function watch(sidebar) {
  const isHere = () => navigator.onLine && sidebar?.dataset.line !== "lost";
  let was = true;
  const look = () => {
    if (isHere() !== was) say((was = isHere()));
    if (was && localStorage.getItem("unsent")) import("./others.js").then(({ sendOthers }) => sendOthers());
  };
  if (sidebar) new MutationObserver(look).observe(sidebar, { attributeFilter: ["data-line"] });
  addEventListener("offline", look);
  addEventListener("online", look);
  look();
}

function say(isHere) {
  const note = document.getElementById("offline");
  if (note) note.textContent = isHere ? "" : note.dataset.words;
}
