// Focuses each question once, if the reader is at the end; restores drafts of answers. `answers.js` sends them, `deciding.js` decisions.

const isBegun = () => Object.keys(localStorage).some((key) => key.startsWith("draft:answer:"));

export function start(page) {
  const items = document.getElementById("items");
  let isWatched = false;
  const focused = new Set();
  const focusNewest = () => {
    if (!isWatched && items.querySelector(".approval")) {
      isWatched = true;
      import("./deciding.js").then(({ start }) => start(page, items), () => (isWatched = false));
    }
    if (isBegun()) import("../question-form.js").then(({ keepAnswers }) => keepAnswers(items), () => {});
    const form = [...document.querySelectorAll("#items .question")].at(-1);
    const message = form?.closest("li").dataset.message;
    if (!form || focused.has(message)) return;
    focused.add(message);
    if (!page.end.follows) return;
    const isWriting = document.activeElement?.matches("textarea, input") && document.activeElement.value;
    // Of a tool call its arguments, so that Enter decides nothing.
    const first = form.matches(".approval") ? "summary" : "input:checked, input:not([type=hidden]), textarea, a";
    if (!isWriting) form.querySelector(first)?.focus();
  };
  page.on("drawn", focusNewest);
  focusNewest();
}
