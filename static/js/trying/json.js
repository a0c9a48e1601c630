// JSON that folds: small things are open, what is deep or long is one click away. All of it is text.
import { h } from "../dom.js";

const OPEN_TO = 6; // levels that are open at first
const MOST = 200; // members of one object or list that are drawn
const LONG = 300; // characters of a text, after which it is folded

export function tree(value, name = null, depth = 0) {
  if (value === null || typeof value !== "object") return leaf(value, name);
  const isList = Array.isArray(value);
  const members = Object.entries(value);
  const count = `${members.length} ${isList ? (members.length === 1 ? "item" : "items") : members.length === 1 ? "field" : "fields"}`;
  if (!members.length) return h("div", { class: "json-line" }, key(name), isList ? "[]" : "{}");
  return h(
    "details",
    { class: "json", open: depth < OPEN_TO },
    h("summary", {}, key(name), h("span", { class: "muted" }, isList ? `[ ${count} ]` : `{ ${count} }`)),
    h(
      "div",
      { class: "json-members" },
      members.slice(0, MOST).map(([each, one]) => tree(one, isList ? null : each, depth + 1)),
      members.length > MOST && h("div", { class: "muted" }, `… and ${members.length - MOST} more: copy it to see all`),
    ),
  );
}

function leaf(value, name) {
  const written = JSON.stringify(value);
  const kind = value === null ? "null" : typeof value;
  if (written.length <= LONG) return h("div", { class: "json-line" }, key(name), h("span", { class: `json-${kind}` }, written));
  return h(
    "details",
    { class: "json" },
    h("summary", {}, key(name), h("span", { class: `json-${kind}` }, `${written.slice(0, 80)}…`), h("span", { class: "muted" }, ` ${written.length} characters`)),
    h("div", { class: "json-members" }, h("span", { class: `json-${kind}` }, written)),
  );
}

function key(name) {
  return name === null ? null : h("span", { class: "json-key" }, `${name}: `);
}

/** What came as text: as JSON where it is some. */
export function shown(text) {
  const value = parsed(text);
  return value === undefined ? h("pre", { class: "plain-body", tabindex: "0" }, text) : tree(value);
}

export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
