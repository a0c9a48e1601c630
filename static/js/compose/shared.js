// What another app shared with Parley goes into the composer. The person sends it.

const SHARE = "/share"; // its key in the cache of the service worker

/** `about`: the page's query, with `text`, or with `shared` if the service worker keeps it. */
export async function takeShared(composer, about) {
  const kept = about.has("shared") ? await takeKept() : null;
  const words = kept ? ["title", "text", "url"].map((name) => kept.get(name)).filter(Boolean).join("\n") : (about.get("text") ?? "");
  const { words: field } = composer;
  field.value = [field.value, words].filter(Boolean).join("\n");
  field.dispatchEvent(new Event("input"));
  const files = kept?.getAll("files").filter(({ size }) => size) ?? [];
  if (files.length) composer.attach(files);
  about.delete("shared");
  about.delete("text");
  history.replaceState(null, "", about.size ? `/?${about}` : "/");
}

async function takeKept() {
  const found = await caches.match(SHARE);
  if (!found) return null;
  const form = await found.formData();
  for (const name of await caches.keys()) await (await caches.open(name)).delete(SHARE);
  return form;
}
