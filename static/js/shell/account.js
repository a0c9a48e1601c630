// The account's menu: the theme, notifications, signing out. Loaded when the menu first opens.
import { renewToken, Unreachable } from "../requests.js";
import { toast } from "../toast.js";
import { isOn, toggleNotifications } from "./notifications.js";

const root = document.documentElement;
const theme = document.querySelector("[data-theme-switch]");
const notify = document.querySelector("[data-notify]");

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
notify.addEventListener("click", () => toggleNotifications(notify));

name();
notify.ariaChecked = isOn();
theme.disabled = notify.disabled = false; // until now the buttons did nothing

// Postponed deletions are done before signing out

const leaving = document.getElementById("sign-out");
leaving.querySelector("button").disabled = false;
leaving.addEventListener("submit", (event) => {
  event.preventDefault();
  signOut(event.target);
});

async function signOut(form) {
  try {
    await renewToken();
  } catch (problem) {
    if (problem instanceof Unreachable) return toast("You are offline. Sign out when the line is back.");
  }
  if (localStorage.getItem(`parley.deleting.${document.body.dataset.user}`)) await (await import("./rows.js")).finishDeleting();
  return form.submit();
}
