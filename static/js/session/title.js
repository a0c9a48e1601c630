// Updates the title of a conversation and its agent.

const $ = (id) => document.getElementById(id);

export function start(page) {
  let { slug } = page.beginning.agent;
  const draw = () => {
    const { title, agent } = page.state;
    if (title) $("title").textContent = title;
    if (title) document.title = `${title} · Parley`;
    if (agent.slug !== slug) drawAgent(agent);
    ({ slug } = agent);
  };
  page.on("drawn", draw);
  draw();
}

function drawAgent({ slug, name }) {
  $("with").textContent = `with ${name}`;
  $("with").href = `/agents/${slug}`;
  for (const choice of document.querySelectorAll("[data-switch]")) choice.hidden = choice.dataset.switch === slug;
}
