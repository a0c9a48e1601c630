// Inside the sandboxed frame (`apps/web/diagrams.py`): draws diagrams with Mermaid. It gets a text and answers with an SVG document.
const LONGEST = 20_000; // characters of a diagram
const STYLED = /<\/?(?:b|i|u|em|strong|small|code)>/gi; // labels have no HTML, except line breaks
const FONT = "system-ui, sans-serif";

async function drawn({ id, text, isDark }) {
  mermaid.initialize({
    startOnLoad: false,
    securityLevel: "strict",
    suppressErrorRendering: true,
    maxTextSize: LONGEST,
    theme: isDark ? "dark" : "default",
    fontFamily: FONT,
    htmlLabels: false, // a picture's text is SVG's own
    flowchart: { htmlLabels: false },
  });
  const { svg } = await mermaid.render(`drawing-${id}`, text.replace(STYLED, ""));
  const picture = document.createElement("template");
  picture.innerHTML = svg;
  return new XMLSerializer().serializeToString(picture.content.querySelector("svg"));
}

let last = Promise.resolve(); // one at a time: Mermaid's settings are global

addEventListener("message", ({ data, source }) => {
  if (source !== parent) return;
  const answer = (result) => parent.postMessage({ id: data.id, ...result }, "*");
  last = last.then(() => drawn(data)).then((svg) => answer({ svg }), (problem) => answer({ problem: String(problem?.message ?? problem).slice(0, 300) }));
});

parent.postMessage({ isReady: true }, "*");
