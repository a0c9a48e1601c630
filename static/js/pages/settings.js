// The settings: buttons that copy, fields that are needed or wrong, and the switches for notifications on this device.
import "../clipboard.js"; // for its buttons
import { isOn, toggleNotifications } from "../shell/notifications.js";
import { offerPush } from "./push.js";

document.querySelector(".settings [aria-invalid=true]")?.focus();

// The password is asked for where the e-mail address changes
const email = document.querySelector("#profile #id_email");
if (email) {
  const password = document.getElementById("id_current_password");
  const ask = () => (password.closest(".field").hidden = email.value === email.form.dataset.email && !password.ariaInvalid);
  email.addEventListener("input", ask);
  ask();
}

// What was chosen before htmx had loaded
addEventListener("load", () => {
  const chosen = document.querySelector("#connection [name=provider]:checked");
  if (chosen && !chosen.defaultChecked) chosen.dispatchEvent(new Event("change", { bubbles: true }));
});

// A choice is sent by a button, which shows once it is another
for (const form of document.querySelectorAll("form[data-changes]")) {
  const [select, button] = form.querySelectorAll("select, button");
  const show = () => (button.hidden = select.selectedOptions[0]?.defaultSelected);
  select.addEventListener("change", show);
  show();
}

const device = document.getElementById("on-this-device");

function show(problem = "") {
  const isMissing = !("Notification" in globalThis);
  device.hidden = isMissing;
  device.ariaChecked = isOn();
  device.disabled = false; // until now the button did nothing
  const words = isMissing ? "This browser has no notifications." : `Notifications are ${isOn() ? "on" : "off"} on this device.`;
  document.getElementById("device-state").textContent = problem || words;
}

if (device) {
  let problem = "";
  device.addEventListener("click", async () => {
    problem = await toggleNotifications();
    show(problem);
  });
  document.addEventListener("notifications-switched", () => show());
  show();
}

const pushHere = document.getElementById("push-here");
if (pushHere) offerPush(pushHere, document.getElementById("push-state"));
