// The account's menu: the theme, notifications, signing out. Loaded when the menu first opens.
import { post, renewToken, Unreachable } from "../requests.js";
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

/** For all of the person's devices. This browser keeps it too, because pages that it kept name the theme of before. */
theme.addEventListener("click", async () => {
  const chosen = (root.dataset.theme = isDark() ? "light" : "dark");
  name();
  const [person, version] = root.dataset.appearance.split(" ");
  keep(person, Number(version) + 1);
  try {
    keep(person, (await post("/settings/appearance/theme", { theme: chosen })).version);
  } catch (problem) {
    toast(problem.message);
  }
});

function keep(person, version) {
  root.dataset.appearance = `${person} ${version}`;
  localStorage.setItem("theme", `${person} ${version} ${root.dataset.theme}`);
}

notify.addEventListener("click", async () => {
  const problem = await toggleNotifications();
  if (problem) toast(problem);
});
document.addEventListener("notifications-switched", () => (notify.ariaChecked = isOn()));

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
    if (problem instanceof Unreachable) return toast("You are offline. Sign out when you are online.");
  }
  if (localStorage.getItem(`parley.deleting.${document.body.dataset.user}`)) await (await import("./rows.js")).finishDeleting();
  return form.submit();
}
