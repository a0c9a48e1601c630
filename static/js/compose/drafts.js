// Unsent drafts, by readable keys in this browser. They outlive the page; `device.js` deletes them with a person's other data.

const KINDS = /^draft:(answer|edit|queued):/;
const LONGEST = 60 * 86_400_000; // ms after which a draft is deleted: what it answers may be settled elsewhere

/** The draft, or null. */
export const draftOf = (key) => read(key)?.said ?? null;

/** `said`: any JSON. */
export function keepDraft(key, said) {
  try {
    localStorage.setItem(key, JSON.stringify({ at: Date.now(), said }));
  } catch {
    // the storage is full: the words stay on the page while it is open
  }
}

export const dropDraft = (key) => localStorage.removeItem(key);

/** What belongs to a composer's draft besides words: whether there are `files`, and `references` ([task, its name] each). */
export const keptWith = ({ draft }) => JSON.parse(localStorage.getItem(`${draft}:with`) ?? "{}");

export function keepWith(composer, what) {
  const all = { ...keptWith(composer), ...what };
  if (all.files || all.references?.length) localStorage.setItem(`${composer.draft}:with`, JSON.stringify(all));
  else localStorage.removeItem(`${composer.draft}:with`);
}

const read = (key) => JSON.parse(localStorage.getItem(key));

for (const key of Object.keys(localStorage)) if (KINDS.test(key) && read(key).at < Date.now() - LONGEST) dropDraft(key);
