/* Charts of the console, drawn by the theme's Chart.js from the JSON beside each canvas. The same numbers are in a table. */

const UNITS = [[120, 1, "s"], [7200, 60, "min"], [172800, 3600, "h"], [Infinity, 86400, "d"]];

function duration(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  const [, unit, name] = UNITS.find(([limit]) => seconds < limit);
  return `${Number((seconds / unit).toPrecision(2))} ${name}`;
}

const WRITE = {
  seconds: duration,
  money: (value) => (value >= 1 || !value ? value.toFixed(2) : String(Number(value.toPrecision(2)))),
};
const WIDE = 20;
const count = (value) => value.toLocaleString("en");

function color(canvas, name) {
  const variable = typeof name === "number" ? `--series-${name}` : `--${name}`; // states and "grid" have variables, too
  const probe = canvas.parentElement;
  probe.style.color = `var(${variable})`; // resolves light-dark()
  const found = getComputedStyle(probe).color;
  probe.style.color = "";
  return found;
}

function datasets(canvas, { kind, series }) {
  return series.map(({ name, values, color: wanted, dash }) => {
    const paint = color(canvas, wanted);
    const line = { borderColor: paint, borderWidth: 2, borderDash: dash ? [6, 4] : [], pointRadius: values.length > 1 ? 2 : 4, spanGaps: true, tension: 0 };
    const bar = { borderWidth: 0, borderRadius: 2, maxBarThickness: kind === "bars" ? 14 : 48 };
    return { label: name, data: values, backgroundColor: paint, ...(kind === "lines" ? line : bar) };
  });
}

/** Logarithmic where the longest time is many times the shortest, so that both can be read. */
function scale(unit, series) {
  const positive = series.flatMap(({ values }) => values).filter((value) => value > 0);
  const isWide = unit === "seconds" && Math.max(...positive) > WIDE * Math.min(...positive);
  if (!isWide) return { beginAtZero: true };
  const title = { display: true, text: "logarithmic", font: { size: 10 } };
  return { type: "logarithmic", min: 10 ** Math.floor(Math.log10(Math.min(...positive))), title };
}

function options(canvas, { kind, unit, series }) {
  const style = getComputedStyle(canvas.parentElement);
  const [muted, hairline] = [style.getPropertyValue("color"), color(canvas, "grid")];
  const write = WRITE[unit] ?? count;
  const horizontal = kind === "bars";
  const values = {
    ...scale(unit, series), stacked: kind === "stacked", border: { display: false },
    grid: { color: hairline }, ticks: { color: muted, maxTicksLimit: 5, callback: write, ...(write === count && { precision: 0 }) },
  };
  const names = { stacked: kind === "stacked", border: { color: hairline }, grid: { display: false }, ticks: { color: muted, maxRotation: 0, autoSkipPadding: 12 } };
  return {
    animation: false, responsive: true, maintainAspectRatio: false, indexAxis: horizontal ? "y" : "x",
    interaction: { mode: "index", axis: horizontal ? "y" : "x", intersect: false },
    scales: { x: horizontal ? values : names, y: horizontal ? names : values },
    plugins: {
      legend: { display: series.length > 1, position: "bottom", align: "start", labels: { color: muted, ...(kind === "lines" ? { usePointStyle: true, pointStyle: "line" } : { boxWidth: 10, boxHeight: 10 }) } },
      tooltip: { callbacks: { label: ({ dataset, raw }) => `${dataset.label}: ${raw === null ? "–" : write(raw)}` } },
    },
  };
}

const drawn = new Set();

function draw(canvas) {
  const data = JSON.parse(canvas.closest("figure").querySelector("script[type='application/json']").textContent);
  const config = { labels: data.labels, datasets: datasets(canvas, data) };
  const known = globalThis.Chart.getChart(canvas);
  if (known) {
    known.data = config;
    known.options = options(canvas, data);
    known.update("none");
    return;
  }
  const type = data.kind === "lines" ? "line" : "bar";
  drawn.add(new globalThis.Chart(canvas, { type, data: config, options: options(canvas, data) }));
}

/** Draw the charts in an element; those that are drawn already get their new numbers. */
export function drawCharts(root = document) {
  for (const chart of drawn) {
    if (chart.canvas?.isConnected) continue;
    chart.destroy();
    drawn.delete(chart);
  }
  for (const canvas of root.querySelectorAll("canvas[data-chart]")) draw(canvas);
}

drawCharts();
new MutationObserver(() => drawCharts()).observe(document.documentElement, { attributeFilter: ["class"] });
