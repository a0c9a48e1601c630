// Text that still arrives: code without its fences, and no half of a formula. The server lays out the whole text at the end.
import { h } from "../dom.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HALF_SIGN = /(?:^|\n) {0,3}(?:`{1,2}|~{1,2})$|(?<!\\)[\\$]$/; // what may become a fence or a formula
const LONGEST_FORMULA = 2_000; // characters; after that it was none
const PAIRS = [["\\[", "\\]"], ["\\(", "\\)"]];

/** Replace what `element` shows by the text so far. */
export function drawStreaming(element, text) {
  element.replaceChildren(...pieces(text));
}

function pieces(text) {
  const found = [];
  let [lines, fence] = [[], ""];
  const take = (isCode) => {
    const words = lines.join("\n");
    if (words) found.push(isCode ? h("code", { class: "streamed" }, words) : words);
    lines = [];
  };
  for (const line of text.split("\n")) {
    const [, sign = ""] = line.match(FENCE) ?? [];
    if (fence ? !(sign.startsWith(fence) && line.trim() === sign) : !sign) lines.push(line);
    else {
      take(Boolean(fence));
      fence = fence ? "" : sign;
    }
  }
  if (fence) take(true);
  else {
    lines = settled(lines.join("\n")).split("\n");
    take(false);
  }
  return found;
}

/** The text up to a formula that is still open. */
function settled(text) {
  const parts = text.split("$$");
  const opened = parts.length % 2 ? [] : [text.length - parts.at(-1).length - 2];
  for (const [open, close] of PAIRS) {
    const at = text.lastIndexOf(open);
    if (at >= 0 && text.indexOf(close, at) < 0) opened.push(at);
  }
  const end = Math.min(...opened, text.length);
  return end < text.length && text.length - end < LONGEST_FORMULA ? `${text.slice(0, end)}…` : text.replace(HALF_SIGN, "");
}
