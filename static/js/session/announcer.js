// Telling a screen reader what happened while the page was open: each thing once, when it is whole.

const WORDS = { canceled: "Stopped.", failed: "Failed.", rejected: "Declined.", "input-required": "asks:", "auth-required": "asks:" };

export function announce(region, agent, entries) {
  const said = entries.map((entry) => spoken(agent, entry)).filter(Boolean);
  if (said.length) region.textContent = said.join(" ");
}

function spoken(agent, { type, state, progress, message, artifacts }) {
  if (type === "agent_message") return `${agent}: ${message.text}`;
  if (type === "agent_complete") return artifacts.length ? `Files: ${artifacts.map((one) => one.name).join(", ")}.` : "";
  if (type !== "agent_status" || progress || state === "working") return "";
  return [agent, WORDS[state] ?? ":", message?.text].filter(Boolean).join(" ").replace(" :", ":");
}
