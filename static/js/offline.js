// Without a line: every page says so at once, and sends what waits in this browser, whichever wrote it, when it is back.

/** `sidebar` says by its `data-line` how the page's line is; a conversation's page has a note of its own. */
export function watch(sidebar) {
  const note = document.getElementById("offline");
  let was = true;
  const look = () => {
    const isHere = navigator.onLine && sidebar?.dataset.line !== "lost";
    if (note && isHere !== was) note.textContent = isHere ? "" : note.dataset.words;
    was = isHere;
    if (isHere && localStorage.getItem("unsent")) import("./others.js").then(({ sendOthers }) => sendOthers()).catch(() => {});
  };
  if (sidebar) new MutationObserver(look).observe(sidebar, { attributeFilter: ["data-line"] });
  addEventListener("offline", look);
  addEventListener("online", look);
  look();
}
