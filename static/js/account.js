// The account's menu: the theme, and whether to be notified. It is loaded when the menu opens for the first time.
import { toggle } from "./notifying.js";

const root = document.documentElement;
const theme = document.querySelector("[data-theme-switch]");
const notify = document.querySelector("[data-notify]");
const mayNotify = localStorage.getItem("notify") === "on" && globalThis.Notification?.permission === "granted";

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function name() {
  theme.querySelector("span").textContent = isDark() ? "Light theme" : "Dark theme";
}

theme.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
  name();
});
notify.addEventListener("click", () => toggle(notify));

name();
notify.ariaChecked = mayNotify;
theme.disabled = notify.disabled = false; // until now nothing came of pressing them

// What was put off is done before one leaves

const leaving = document.getElementById("sign-out");
leaving.querySelector("button").disabled = false;
leaving.addEventListener("submit", (event) => {
  event.preventDefault();
  import("./leaving.js").then(({ leave }) => leave(event.target), () => event.target.submit());
});
