// A short notice about an action, with an undo button if possible. It is announced once, and disappears by itself.
import { h } from "./dom.js";

export const FOREVER = 2 ** 31 - 1; // ms: the longest time of a timer
const STAYS = 6000; // ms; longer while the pointer or the focus is on it

/**
 * `act` is {name, run}: a button in it; or with `stays` (ms) and `over`, which is called when the notice disappears by itself.
 * Returns a function that removes it.
 */
export function toast(sentence, act = null) {
  const element = h("div", { class: "toast" }, h("span", {}, sentence));
  let timer;
  let before = null; // the previous focus
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

/** For screen readers alone: the page already shows it. */
export function announce(sentence) {
  const element = h("p", { class: "visually-hidden" }, sentence);
  document.getElementById("toasts").append(element);
  setTimeout(() => element.remove(), STAYS);
}

let endChanged = () => {};

/** After another role or workspace, which may also have been chosen in another tab. What is typed here stays. */
export function reportChanged() {
  endChanged();
  endChanged = toast("Your workspace or your role has changed.", { name: "Reload", run: () => location.reload(), stays: FOREVER });
}

// A failed load is reported where it was requested. After a sign-out the person is told, and nothing more is requested.

let isOut = false;

/** `detail` is that of htmx's event. */
export function reportFailure({ xhr, requestConfig }) {
  if (xhr.status === 401) return signedOut();
  if (requestConfig.triggeringEvent?.isTrusted) reportNotLoaded();
}

export function reportNotLoaded() {
  toast("This could not be loaded. Check your connection and try again.");
}

function signedOut() {
  if (isOut) return;
  isOut = true;
  document.addEventListener("htmx:beforeRequest", (event) => event.preventDefault());
  const run = () => location.assign(`/sign-in?${new URLSearchParams({ next: location.pathname })}`);
  toast("You are signed out.", { name: "Sign in again", run, stays: FOREVER });
}
