// The focus goes to each of an agent's questions once, when it is there and one is at the end, and what was filled in before
// is there again; who answers it is heard by `questions.js`.
const isBegun = () => Object.keys(localStorage).some((key) => key.startsWith("draft:answer:"));

export function start(page) {
  const focused = new Set();
  const focusNewest = () => {
    if (isBegun()) import("../filled.js").then(({ followAll }) => followAll(document.getElementById("items")), () => {});
    const form = [...document.querySelectorAll("#items .question")].at(-1);
    const message = form?.closest("li").dataset.message;
    if (!form || focused.has(message)) return;
    focused.add(message);
    if (!page.end.follows) return;
    // … unless the person is in the middle of writing
    const isWriting = document.activeElement?.matches("textarea, input") && document.activeElement.value;
    if (!isWriting) form.querySelector("input:checked, input:not([type=hidden]), textarea, a")?.focus();
  };
  page.on("drawn", focusNewest);
  focusNewest();
}
