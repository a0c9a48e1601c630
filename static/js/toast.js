// A short word about what was just done, with a way back where there is one. It is read out once, and goes by itself.
import { h } from "./dom.js";

export const FOREVER = 2 ** 31 - 1; // ms: as long as there are timers for
const STAYS = 6000; // ms; longer while the pointer or the focus is on it

/**
 * `act` is {name, run}: a button in it; or with `stays` (ms) and `over`, which is called when it goes by itself. Gives a function
 * that takes it away.
 */
export function toast(sentence, act = null) {
  const element = h("div", { class: "toast" }, h("span", {}, sentence));
  let timer;
  let before = null; // where the focus came from
  const away = () => {
    clearTimeout(timer);
    const hadFocus = element.contains(document.activeElement);
    element.remove();
    if (hadFocus) (before?.isConnected ? before : document.getElementById("main"))?.focus({ preventScroll: true });
  };
  element.addEventListener("focusin", ({ relatedTarget }) => (before = relatedTarget ?? before));
  const end = () => {
    away();
    act?.over?.();
  };
  const wait = () => (timer = setTimeout(() => (element.matches(":hover, :focus-within") ? wait() : end()), act?.stays ?? STAYS));
  if (act?.name) {
    const run = () => {
      away();
      act.run();
    };
    element.append(h("button", { type: "button", class: "quiet small", onclick: run }, act.name));
  }
  document.getElementById("toasts").append(element);
  wait();
  return away;
}

// What could not be loaded is said where somebody asked for it; who is signed out is told so, and nothing is asked for any more

let isOut = false;

/** `detail` of htmx's event. */
export function reportFailure({ xhr, requestConfig }) {
  if (xhr.status === 401) return signedOut();
  if (requestConfig.triggeringEvent?.isTrusted) reportNotLoaded();
}

export function reportNotLoaded() {
  toast("This could not be loaded. Look at your connection, then try again.");
}

function signedOut() {
  if (isOut) return;
  isOut = true;
  document.addEventListener("htmx:beforeRequest", (event) => event.preventDefault());
  const run = () => location.assign(`/sign-in?${new URLSearchParams({ next: location.pathname })}`);
  toast("You are signed out.", { name: "Sign in again", run, stays: FOREVER });
}
