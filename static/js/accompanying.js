// What went along with the words of the composer's draft that comes back: tasks that it refers to are there again, files are not.
import { keepWith, keptWith } from "./drafts.js";

export async function recall(composer) {
  const { words, form } = composer;
  const { files, references } = keptWith(composer);
  const over = () => {
    const isEmpty = !words.value.trim() && form.querySelector(".chosen").hidden;
    if (isEmpty) keepWith(composer, { files: false });
  };
  over();
  for (const [target, name] of [[words, "input"], [form, "cleared"]]) target.addEventListener(name, over);
  if (files && words.value.trim()) composer.complain("The files of this draft are gone; choose them again.");
  if (!references) return;
  const referring = await import("./session/referring.js").catch(() => null);
  if (keptWith(composer).references) referring?.recall(composer, references); // or the message was sent meanwhile
}
