// A text that an agent made, in the conversation: it grows while it is streamed. A long one becomes a line that opens the file.
import { h, icon, safe } from "../dom.js";

const AT_END = 24; // pixels from the end within which the view follows

/** `before` is the item that the element shows, if any. A long text stays open where the reader may be reading it. */
export function drawMade(element, item, before, follows) {
  if (item.isMaking && before?.isMaking && item.isListed === before.isListed) return grow(element, item);
  const known = element.querySelector(".made-body");
  const isAtEnd = known ? isScrolledToEnd(known) : item.isMaking;
  const top = known?.scrollTop ?? 0;
  element.className = "made";
  const stays = item.isFolded && !follows && known;
  element.replaceChildren(line(item), ...(stays ? [known] : item.isFolded ? [] : [body(item)]));
  const shown = element.querySelector(".made-body");
  if (shown) shown.scrollTop = isAtEnd ? shown.scrollHeight : top;
}

function grow(element, { text, about }) {
  const shown = element.querySelector(".made-body");
  const isAtEnd = isScrolledToEnd(shown);
  shown.firstElementChild.textContent = text;
  element.querySelector(".about").textContent = about;
  if (isAtEnd) shown.scrollTop = shown.scrollHeight;
}

const isScrolledToEnd = ({ scrollHeight, scrollTop, clientHeight }) => scrollHeight - scrollTop - clientHeight < AT_END;

function line(item) {
  const { taskId, artifactId, name, about, isListed, isUnfinished, parts: [{ href } = {}] = [] } = item;
  const title = h("span", { class: "name", dir: "auto" }, name || artifactId);
  const open = { type: "button", class: "quiet made-open", "data-artifact": `${taskId}/${artifactId}` };
  const label = `Download ${name || artifactId}`;
  return h(
    "div",
    { class: "made-line small" },
    isListed ? h("button", open, icon("file"), title) : [icon("file"), title],
    h("span", { class: "about figures muted" }, about),
    isUnfinished && h("span", { class: "mark" }, "Unfinished"),
    href && h("a", { class: "button quiet round", href, download: true, title: label, "aria-label": label }, icon("download")),
  );
}

function body({ html, text, isMaking, name }) {
  if (!isMaking) return safe(h("div", { class: "made-body", tabindex: "0", role: "group", "aria-label": name }), html);
  const words = h("p", { class: "verbatim streaming caret" }, text);
  return h("div", { class: "made-body prose", dir: "auto", tabindex: "0", role: "group", "aria-label": name }, words);
}
