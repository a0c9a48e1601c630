// One request and its answer, as the console shows them.
import { h, icon } from "../../dom.js";
import { timeOfDay } from "../../format.js";
import { inWords, masked, taskIn } from "./calls.js";

const MOST = 500; // the number of drawn events

export class Exchange {
  /** `request` is {method, version, path, headers, body}; `acts` are {stop, cancel(task), copy(text, element), curl()}. */
  constructor(request, acts) {
    Object.assign(this, { request, acts, began: performance.now(), said: [], events: 0, task: null, isOpen: true });
    this.state = h("span", { class: "exchange-state" });
    this.came = h("div", { class: "came" });
    this.note = h("p", { class: "exchange-note small", hidden: true });
    this.stop = h("button", { type: "button", class: "small", onclick: acts.stop }, icon("stop"), "Stop reading");
    this.cancel = h("button", { type: "button", class: "small", hidden: true, onclick: () => acts.cancel(this.task) }, "Cancel task");
    this.element = this.draw();
    this.show("working", "Waiting for the response");
  }

  draw() {
    const { method, version } = this.request;
    const time = h("time", { class: "muted" }, timeOfDay(Date.now(), true));
    const act = (name, run) => h("button", { type: "button", class: "quiet small", onclick: run }, name);
    return h(
      "li",
      { class: "exchange", tabindex: "-1" },
      h("header", {}, h("h3", {}, method || "(no method)"), h("span", { class: "small muted" }, `A2A ${version} · `, time), this.state),
      this.note,
      h(
        "div",
        { class: "actions" },
        this.stop,
        this.cancel,
        act("Copy response", () => this.acts.copy(this.said.join("\n"), this.came)),
        act("Copy as curl", () => this.acts.curl()),
      ),
      this.sent(),
      this.came,
    );
  }

  sent() {
    const { path, headers, body } = this.request;
    const told = { ...headers, Authorization: headers.Authorization.replace(/(?<=Bearer ).*/, masked) };
    return h(
      "details",
      { class: "leg" },
      h("summary", {}, h("span", { class: "way", "aria-hidden": "true" }, "↑"), "Request"),
      h("p", { class: "line" }, `POST ${path}`),
      list(told),
      shown(body),
    );
  }

  get milliseconds() {
    return Math.round(performance.now() - this.began);
  }

  show(look, words) {
    this.state.replaceChildren(h("span", { class: `sign sign-${look}` }, icon(look)), h("span", { class: "small" }, words));
  }

  response(answer) {
    this.status = `${answer.status} ${answer.statusText}`.trim();
    this.isGood = answer.ok;
    this.came.replaceChildren(
      h(
        "details",
        { class: "leg" },
        h("summary", {}, h("span", { class: "way", "aria-hidden": "true" }, "↓"), `Response ${this.status} `, h("span", { class: "muted figures" }, `after ${this.milliseconds} ms`)),
        list(Object.fromEntries(answer.headers)),
      ),
    );
    this.show("working", `${this.status}, reading`);
  }

  body(text) {
    this.said.push(text);
    this.learn(parsed(text));
    this.came.append(h("div", { class: "leg-body" }, shown(text)));
  }

  event({ id, event, data }) {
    const said = parsed(data);
    this.said.push(data);
    this.learn(said);
    this.events += 1;
    if (!this.list) this.came.append((this.list = h("ol", { class: "plain events", "aria-label": "Events" })));
    const words = h("summary", {}, h("span", { class: "muted figures" }, `+${this.milliseconds} ms `), id && h("span", { class: "muted figures" }, `#${id} `), event && `${event} `, inWords(said));
    const item = h("details", { class: "event", ontoggle: () => item.open && item.children.length === 1 && item.append(shown(data)) }, words);
    this.list.append(h("li", {}, item));
    if (this.list.children.length > MOST) this.list.firstElementChild.remove();
    this.show("working", `${this.status}, ${this.events} event${this.events === 1 ? "" : "s"}`);
  }

  learn(said) {
    if (said?.error) this.error = said.error;
    this.task = taskIn(said)?.id ?? this.task;
    this.hasEnded = taskIn(said)?.hasEnded ?? this.hasEnded;
  }

  /** The answer is complete; `sentence` says why, if necessary. */
  end(sentence = "") {
    const isWell = this.isGood && !this.error && !sentence;
    const events = this.events ? `, ${this.events} event${this.events === 1 ? "" : "s"}` : "";
    const error = this.error ? `, error ${this.error.code ?? ""}` : "";
    this.outcome = this.status ? `${this.status}${error}${events} in ${this.milliseconds} ms` : "No response";
    this.show(isWell ? "done" : this.error || !this.status || !this.isGood ? "failed" : "canceled", this.outcome);
    this.note.textContent = sentence;
    this.note.hidden = !sentence;
    this.cancel.hidden = !(this.task && sentence && !this.hasEnded);
    const hadFocus = this.stop.matches(":focus");
    this.stop.hidden = true;
    if (hadFocus) (this.cancel.hidden ? this.element : this.cancel).focus();
  }
}

function list(headers) {
  return h("dl", { class: "headers" }, Object.entries(headers).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

const OPEN_TO = 6; // levels that are initially open
const MOST_MEMBERS = 200; // members of one object or list that are drawn
const LONG = 300; // characters of a text, after which it is folded

function jsonTree(value, name = null, depth = 0) {
  if (value === null || typeof value !== "object") return jsonLeaf(value, name);
  const isList = Array.isArray(value);
  const members = Object.entries(value);
  const count = `${members.length} ${isList ? (members.length === 1 ? "item" : "items") : members.length === 1 ? "field" : "fields"}`;
  if (!members.length) return h("div", { class: "json-line" }, jsonKey(name), isList ? "[]" : "{}");
  return h(
    "details",
    { class: "json", open: depth < OPEN_TO },
    h("summary", {}, jsonKey(name), h("span", { class: "muted" }, isList ? `[ ${count} ]` : `{ ${count} }`)),
    h(
      "div",
      { class: "json-members" },
      members.slice(0, MOST_MEMBERS).map(([each, one]) => jsonTree(one, isList ? null : each, depth + 1)),
      members.length > MOST_MEMBERS && h("div", { class: "muted" }, `… and ${members.length - MOST_MEMBERS} more: copy it to see all`),
    ),
  );
}

function jsonLeaf(value, name) {
  const written = JSON.stringify(value);
  const kind = value === null ? "null" : typeof value;
  if (written.length <= LONG) return h("div", { class: "json-line" }, jsonKey(name), h("span", { class: `json-${kind}` }, written));
  return h(
    "details",
    { class: "json" },
    h("summary", {}, jsonKey(name), h("span", { class: `json-${kind}` }, `${written.slice(0, 80)}…`), h("span", { class: "muted" }, ` ${written.length} characters`)),
    h("div", { class: "json-members" }, h("span", { class: `json-${kind}` }, written)),
  );
}

function jsonKey(name) {
  return name === null ? null : h("span", { class: "json-key" }, `${name}: `);
}

/** A text, as JSON if possible. */
export function shown(text) {
  const value = parsed(text);
  return value === undefined ? h("pre", { class: "plain-body", tabindex: "0" }, text) : jsonTree(value);
}

export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
