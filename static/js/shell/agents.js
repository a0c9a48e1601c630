// The agents that a person may use, as the server draws them: options of a list (`_agent_options.html`).

/** Those that match the text; without it all, the last used first. */
export async function agentsFor(text, signal) {
  const answer = await fetch(`/find?${new URLSearchParams({ q: text })}`, { signal });
  if (!answer.ok || answer.redirected) throw new Error("Agents could not be loaded.");
  const drawn = new DOMParser().parseFromString(await answer.text(), "text/html");
  return [...drawn.querySelectorAll("[role=option]")].map((one) => document.adoptNode(one));
}

export const slugOf = ({ dataset }) => dataset.href.split("/")[2];
