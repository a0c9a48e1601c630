// What every signed-in page does: switch the theme, and tell times in the reader's words.
import { dress } from "./times.js";

const root = document.documentElement;

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

for (const button of document.querySelectorAll("[data-theme-switch]")) {
  const label = button.querySelector("span");
  const name = () => (label.textContent = isDark() ? "Light theme" : "Dark theme");
  name();
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
    name();
  });
}

for (const time of document.querySelectorAll("time[datetime]")) dress(time);
