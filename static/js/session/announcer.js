// Tells a screen reader what happened while the page was open: each thing once, when it is complete.
import { h, safe } from "../dom.js";

const KEPT = 20; // the last text stays, so that a slow reader is not interrupted

const WORDS = { canceled: "Stopped.", failed: "Failed.", rejected: "Not accepted:", "input-required": "asks:", "auth-required": "asks:" };

const streamed = new Set(); // texts announced when their streams ended, with their tasks: the message that repeats one is not announced

export function start(page) {
  const region = document.getElementById("announcer");
  page.on("entries", (entries) => announce(region, page.state, entries));
  announce(region, page.state, page.entries.filter((entry) => entry.index > page.opened)); // why this module was loaded
}

function announce(region, state, entries) {
  const said = entries.map((entry) => spoken((entry.agent ?? state.agent).name, entry)).filter(Boolean);
  region.append(...said.map((words) => h("p", {}, words)));
  while (region.children.length > KEPT) region.firstElementChild.remove();
}

function spoken(agent, { type, taskId, text, state, progress, message, artifacts, isKept }) {
  if (type === "agent_token_end") streamed.add(taskId + text.trim());
  if (type === "agent_token_end") return text.trim() && `${agent}: ${text}`;
  const words = message && !streamed.delete(taskId + message.text.trim()) ? message.text : "";
  if (type === "agent_message") return words && `${agent}: ${words}`;
  if (type === "agent_switched") return isKept ? "" : `Continued with ${agent}.`;
  if (artifacts) return artifacts.map(spokenArtifact).filter(Boolean).join(" ");
  if (type !== "agent_status" || progress || state === "working") return "";
  if (WORDS[state]) return [agent, WORDS[state], words].filter(Boolean).join(" ");
  return words && `${agent}: ${words}`;
}

/** A text that the conversation shows, or the name of a file. */
function spokenArtifact({ name, html, isListed, isUnfinished }) {
  const mark = isUnfinished ? "Unfinished: " : "";
  if (html) return `${mark}${name}: ${safe(h("div"), html).textContent}`;
  return isListed ? `${mark || "File: "}${name}.` : "";
}
