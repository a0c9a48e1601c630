// A page that the service worker had kept, and that is not what the server would make of it by now, or cannot be known to be.
import { keptOf } from "./kept.js";

const PATIENCE = 400; // ms in which what was kept is of use to who opens a page

export function start(page) {
  const { isAlone, isGone } = page.old;
  if (isAlone) recall(page);
  if (isGone) import("./pruning.js").then(({ drop }) => drop(keptOf(page)), () => {});
  if (page.standing) page.stand();
  page.tell("old");
}

/** Have a page take what the browser knows beyond it. What is not there soon is not waited for, and taken when it is. */
export async function recall(page) {
  const known = after(keptOf(page), page.state.last);
  const taken = known.then(async (entries) => {
    await page.take(entries);
    page.opened = Math.max(page.opened, entries.at(-1)?.index ?? 0);
  });
  await Promise.race([taken, new Promise((done) => setTimeout(done, PATIENCE))]);
}

/** What follows on index `last`; nothing, where nothing is known. */
async function after(kept, last) {
  const found = [];
  for (const { first, until, entries } of await kept.blocks(last + 1)) {
    if (first > last + 1) break;
    found.push(...entries.filter(({ index }) => index > last));
    last = until;
  }
  return found;
}
