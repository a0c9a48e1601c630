// What could not be had is said where somebody asked for it. Who is signed out is told so, and nothing is asked for any more.
import { toast } from "./toast.js";

const STAYS = 2 ** 31 - 1; // ms: as long as there are timers for

let isOut = false;

/** `detail` of htmx's event. */
export function tell({ xhr, requestConfig }) {
  if (xhr.status === 401) return signedOut();
  if (requestConfig.triggeringEvent?.isTrusted) sayLater();
}

export function sayLater() {
  toast("This could not be loaded. Look at your connection, then try again.");
}

function signedOut() {
  if (isOut) return;
  isOut = true;
  document.addEventListener("htmx:beforeRequest", (event) => event.preventDefault());
  const run = () => location.assign(`/sign-in?${new URLSearchParams({ next: location.pathname })}`);
  toast("You are signed out.", { name: "Sign in again", run, stays: STAYS });
}
