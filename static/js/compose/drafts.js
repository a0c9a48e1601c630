// What is being written and was not sent yet, by clear keys in this browser: it outlives the page. `device.js` forgets it with
// all else of a person.

const KINDS = /^draft:(answer|edit|queued):/;
const LONGEST = 60 * 86_400_000; // ms after which nobody comes back for it: what it answers may be settled elsewhere

/** What was kept, or null. */
export const draftOf = (key) => read(key)?.said ?? null;

/** `said`: whatever JSON can say. */
export function keepDraft(key, said) {
  try {
    localStorage.setItem(key, JSON.stringify({ at: Date.now(), said }));
  } catch {
    // there is no room: what is written stays on the page, as long as that is there
  }
}

export const dropDraft = (key) => localStorage.removeItem(key);

/** What goes along with the words of a composer's draft: whether there are `files`, and `references` ([task, its name] each). */
export const keptWith = ({ draft }) => JSON.parse(localStorage.getItem(`${draft}:with`) ?? "{}");

export function keepWith(composer, what) {
  const all = { ...keptWith(composer), ...what };
  if (all.files || all.references?.length) localStorage.setItem(`${composer.draft}:with`, JSON.stringify(all));
  else localStorage.removeItem(`${composer.draft}:with`);
}

const read = (key) => JSON.parse(localStorage.getItem(key));

for (const key of Object.keys(localStorage)) if (KINDS.test(key) && read(key).at < Date.now() - LONGEST) dropDraft(key);
