/* Every page of the console: times that stay current, buttons that copy an id whole, and the theme. */

const UNITS = [[90, 1, "s"], [5400, 60, "min"], [129600, 3600, "h"], [2592000, 86400, "d"]];

/** How long ago or ahead a time is, in the words of `cells.from_now`. */
function fromNow(at, now = Date.now()) {
  const seconds = (now - at) / 1000;
  const distance = Math.abs(seconds);
  for (const [limit, unit, name] of UNITS) {
    if (distance < limit) {
      const amount = Math.trunc(distance / unit);
      if (!amount) return "now";
      return seconds > 0 ? `${amount} ${name} ago` : `in ${amount} ${name}`;
    }
  }
  return new Date(at).toISOString().slice(0, 10);
}

export function tellTimes(root = document, now = Date.now()) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const text = fromNow(Date.parse(time.dateTime), now);
    if (time.textContent !== text) time.textContent = text;
  }
}

async function copy(button) {
  await navigator.clipboard.writeText(button.dataset.copy);
  button.dataset.copied = "";
  setTimeout(() => delete button.dataset.copied, 1200);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-copy]");
  if (button) copy(button);
});

/** The theme is the person's, in Parley as well. It changes at once; if it cannot be kept, the next page has the old one. */
document.addEventListener("submit", (event) => {
  const { target, submitter } = event;
  if (!target.matches("[data-theme-choice]")) return;
  event.preventDefault();
  Alpine.$data(document.documentElement).switchTheme(submitter.value || "auto");
  fetch(target.action, { method: "POST", body: new FormData(target, submitter) });
});

tellTimes();
setInterval(() => tellTimes(), 1000);
