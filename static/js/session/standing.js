// How the session stands, above and below a conversation, as the server draws it (`_standing.html`). What is there stays, and
// follows: somebody may be pressing it.
import { h, safe } from "../dom.js";

const SAID = ["hidden", "disabled", "title", "placeholder"];

export function stand(html, words) {
  const had = document.activeElement;
  for (const now of safe(h("div"), html).children) follow(document.querySelector(`.${now.className}`), now);
  if (had !== document.body && !had.checkVisibility()) words.focus();
}

function follow(element, now) {
  for (const name of SAID) {
    if (!now.hasAttribute(name)) element.removeAttribute(name);
    else if (element.getAttribute(name) !== now.getAttribute(name)) element.setAttribute(name, now.getAttribute(name));
  }
  const isAlike = now.children.length && element.children.length === now.children.length;
  if (isAlike) for (const [place, child] of [...now.children].entries()) follow(element.children[place], child);
  else if (element.innerHTML !== now.innerHTML) element.replaceChildren(...now.childNodes);
}
