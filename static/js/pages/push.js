// Notifications in this browser while Parley is closed (Web Push): the page subscribes, the server calls the browser's push service.
import { api } from "../requests.js";

/** Shows the button where it can do something. Its `data-key` is the server's public key. */
export async function offerPush(button, state) {
  if (!("PushManager" in globalThis) || !navigator.serviceWorker) {
    state.textContent = "This browser cannot be told while Parley is closed.";
    return;
  }
  const worker = await navigator.serviceWorker.ready;
  button.hidden = false; // also where it was subscribed before: the server may have forgotten it
  button.addEventListener("click", async () => {
    button.disabled = true;
    state.textContent = await subscribe(worker, button.dataset.key);
    button.disabled = false;
    if (!state.textContent) location.reload(); // with the new channel
  });
}

/** Returns a problem, or "". */
async function subscribe(worker, key) {
  if ((await Notification.requestPermission()) !== "granted") {
    return "Your browser blocks notifications of this site. Allow them in its settings, then try again.";
  }
  let subscription;
  try {
    subscription = await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
    const { endpoint, keys } = subscription.toJSON();
    await api("POST", "/notifications/channels", { type: "push", name: nameOfBrowser(), url: endpoint, keys });
    return "";
  } catch (problem) {
    await subscription?.unsubscribe(); // the server does not know it
    return problem.name === "AbortError" ? "Your browser cannot reach its push service. Try again later." : problem.message;
  }
}

function nameOfBrowser() {
  const { brands = [], platform = "" } = navigator.userAgentData ?? {};
  const brand = brands.map((one) => one.brand).find((one) => !/not.?a.?brand|chromium/i.test(one)) ?? "";
  const name = brand || navigator.userAgent.match(/(Firefox|Edg|Safari|Chrome)/)?.[0] || "Browser";
  return platform ? `${name} on ${platform}` : name;
}
