/* The live panel of a page: what the server renders anew is put in place of what changed, and nothing else moves. */

import { setChildren } from "../js/place.js";
import { tellTimes } from "./console.js";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15000;
const SILENCE = 120000; // the server says something every 45 s: a line that is silent for longer is dead
const REFUSED = { 4401: "You are signed out. Reload the page to sign in.", 4404: "This page can no longer be followed." };

class Panel {
  constructor(section) {
    this.panel = section.querySelector("[data-panel]");
    this.line = section.querySelector("[data-line]");
    this.path = section.dataset.live;
    this.wait = FIRST_WAIT;
  }

  connect() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}${this.path}`);
    const listen = () => {
      clearTimeout(this.silence);
      this.silence = setTimeout(() => socket.close(), SILENCE);
    };
    listen();
    socket.addEventListener("message", ({ data }) => {
      listen();
      this.wait = FIRST_WAIT;
      this.say("live", "Live");
      this.renew(data);
      socket.send("shown");
    });
    socket.addEventListener("close", ({ code }) => {
      clearTimeout(this.silence);
      if (REFUSED[code]) return this.say("lost", REFUSED[code]);
      this.say("lost", "The line is lost. Reconnecting…");
      setTimeout(() => this.connect(), this.wait * (0.8 + 0.4 * Math.random()));
      this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
    });
  }

  say(state, text) {
    this.line.dataset.line = state;
    if (this.line.textContent !== text) this.line.textContent = text;
  }

  renew(html) {
    const fresh = document.createElement("template");
    fresh.innerHTML = html;
    const now = Date.now(); // the same for both, so that what did not change is equal
    tellTimes(fresh.content, now);
    tellTimes(this.panel, now);
    reconcile(this.panel, fresh.content);
  }
}

/** Make `old` have the children of `fresh`, keeping every element that did not change (same id, same content). */
function reconcile(old, fresh) {
  const known = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
  const wanted = [...fresh.children].map((child) => {
    const kept = child.id && known.get(child.id);
    if (!kept) return child;
    if (kept.isEqualNode(child)) return kept;
    const [rows, freshRows] = [kept.querySelector("tbody"), child.querySelector("tbody")];
    if (!rows || !freshRows) return child;
    reconcile(rows, freshRows);
    kept.querySelector("h2").replaceWith(child.querySelector("h2"));
    return kept;
  });
  setChildren(old, wanted);
}

for (const section of document.querySelectorAll("[data-live]")) new Panel(section).connect();
