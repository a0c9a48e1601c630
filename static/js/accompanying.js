// What went along with the words of the composer's draft that comes back: tasks that it refers to are there again, files are not.
import { keepWith, keptWith } from "./drafts.js";

const recalled = new WeakMap(); // composers, and when theirs is there again

/** Done when all is there again; once for a composer. */
export function recall(composer) {
  if (!recalled.has(composer)) recalled.set(composer, recallNow(composer));
  return recalled.get(composer);
}

async function recallNow(composer) {
  const { words, form } = composer;
  const { files, references } = keptWith(composer);
  const over = () => {
    const isEmpty = !words.value.trim() && form.querySelector(".chosen").hidden;
    if (isEmpty) keepWith(composer, { files: false });
  };
  over();
  for (const [target, name] of [[words, "input"], [form, "cleared"]]) target.addEventListener(name, over);
  if (files && words.value.trim()) composer.complain("The files of this draft are gone; choose them again.");
  if (references) await import("./session/referring.js").then((referring) => referring.recall(composer, references), () => {});
}
