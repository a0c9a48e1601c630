// What a person may use and see, as the server draws it: options of a list (`_agent_options.html`, `_found.html`).

/** The agents that match the text; without it all, the last used first. */
export async function agentsFor(text, signal) {
  return optionsIn(await drawn({ q: text }, "Agents could not be loaded.", signal));
}

/** All that matches the text, in groups. `isFirst`: it stands before what the browser knows. */
export async function foundFor(text, signal) {
  const page = await drawn({ q: text, all: "" }, "The search did not work.", signal);
  return [...page.querySelectorAll("[data-group]")].map((one) => ({ name: one.dataset.group, isFirst: "first" in one.dataset, options: optionsIn(one) }));
}

async function drawn(query, problem, signal) {
  const answer = await fetch(`/find?${new URLSearchParams(query)}`, { signal });
  if (!answer.ok || answer.redirected) throw new Error(problem);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

const optionsIn = (place) => [...place.querySelectorAll("[role=option]")].map((one) => document.adoptNode(one));

export const slugOf = ({ dataset }) => dataset.href.split("/")[2];
