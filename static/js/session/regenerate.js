// Another answer by another model or agent, chosen in the palette.
import { icon } from "../dom.js";
import { agentsFor, slugOf } from "../shell/agents.js";
import { open, option } from "../shell/palette.js";

/** `item` is the answer. `again(how)` gets what the client API's fork needs: an agent, and perhaps its options. */
export function chooseOther(item, again) {
  const look = async (text, show, signal) => {
    const [agents, [own]] = await Promise.all([agentsFor(text, signal), agentsFor(item.agent.slug, signal).then((found) => found.filter((one) => slugOf(one) === item.agent.slug))]);
    const fits = (name) => name.toLocaleLowerCase().includes(text.toLocaleLowerCase());
    const models = [...(own?.querySelector(".models")?.content.children ?? [])].filter((one) => fits(one.textContent));
    show([{ name: "Models", options: models.map((one) => modelOption(own, one, again)) }, { name: "Agents", options: agents }], false);
  };
  const dialog = document.getElementById("palette");
  dialog.ariaLabel = "Try again with";
  dialog.querySelector("input").value = "";
  dialog.showModal();
  open({ name: "Try again with", asks: "Search models and agents", look, run: (one) => again({ agent: slugOf(one) }), without: "Try again in a moment." });
}

function modelOption(agent, { value, textContent }, again) {
  const made = option(agent.dataset.href, icon("again"), textContent, agent.dataset.agent);
  made.run = () => again({ agent: slugOf(agent), options: { model: value } });
  return made;
}
