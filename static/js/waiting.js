// How many tasks wait for the person, in the title of the page.

const title = document.querySelector("title");
let mark = "";

/** The count goes before whatever the title says, also where that changes later. */
export function show(count) {
  const plain = document.title.startsWith(mark) ? document.title.slice(mark.length) : document.title;
  mark = count ? `(${count}) ` : "";
  write(plain);
}

function write(plain) {
  if (document.title !== mark + plain) document.title = mark + plain;
}

new MutationObserver(() => document.title.startsWith(mark) || write(document.title)).observe(title, { childList: true });
