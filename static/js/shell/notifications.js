// Notifications of sessions that are not open: ended work, questions. Once per browser, however many pages are open. The page that
// shows the session needs none; otherwise a visible page shows it, otherwise the browser.
import { api } from "../requests.js";
import { toast } from "../toast.js";

const WORDS = {
  completed: "completed", failed: "failed", rejected: "did not accept it",
  "input-required": "has a question", "auth-required": "needs a credential",
};
const NEWS = 60000; // ms; older events were there before this page
const [IN_SIGHT, BEHIND] = [150, 500]; // ms that a page leaves to pages that are more visible
const KEPT = 100; // events that are remembered as shown
const LONGEST = 140;

/** Settled states of tasks, as /ws/events says them. */
export async function notifyOf(events) {
  for (const event of events) {
    if (Date.now() - new Date(event.timestamp) > NEWS) continue;
    const isHere = !document.hidden && location.pathname === `/sessions/${event.sessionId}`;
    if (!isHere) await new Promise((done) => setTimeout(done, document.hidden ? BEHIND : IN_SIGHT));
    if ((await isFirst(event.id)) && !isHere) await say(event);
  }
}

/** Has no other page shown this yet? Then this page does. Storage may reach other pages late; a lock is immediate. */
function isFirst(id) {
  if (!navigator.locks) return isNoted(id);
  return new Promise((answer) => {
    navigator.locks.request(`parley.told.${id}`, { ifAvailable: true }, (lock) => {
      answer(Boolean(lock) && isNoted(id));
      return lock && new Promise((done) => setTimeout(done, NEWS));
    });
  });
}

function isNoted(id) {
  const told = JSON.parse(localStorage.getItem("parley.told") ?? "[]");
  if (told.includes(id)) return false;
  localStorage.setItem("parley.told", JSON.stringify([...told, id].slice(-KEPT)));
  return true;
}

async function say({ sessionId, payload }) {
  const asks = payload.state.endsWith("-required");
  if (!document.body.dataset.notifiedOf.includes(asks ? "questions" : "ended")) return; // as chosen in the settings
  if (!document.hidden && asks && location.pathname === "/inbox") return; // it appears there
  if (!document.hidden && document.querySelector(`iframe[src*="/sessions/${sessionId}/"]`)) return; // as in a comparison
  const session = await api("GET", `/sessions/${sessionId}?include=tasks`).catch(() => null);
  if (!session || String(session.session.agent).startsWith("draft--")) return; // deleted, or offline; or a try beside a form
  const title = `“${session.session.title || "New session"}” ${WORDS[payload.state]}`;
  const open = () => location.assign(`/sessions/${sessionId}`);
  if (!document.hidden) toast(`${title}.`, { name: "Open", run: open });
  else if (isOn()) notify(title, sessionId, payload.message);
}

export const isOn = () => localStorage.getItem("notify") === "on" && globalThis.Notification?.permission === "granted";

async function notify(title, sessionId, message) {
  const body = (message?.parts ?? []).map((part) => part.text ?? "").join(" ").slice(0, LONGEST);
  const about = { body, tag: sessionId, data: { href: `/sessions/${sessionId}` } };
  try {
    const shown = new Notification(title, about);
    shown.onclick = () => {
      window.focus();
      location.assign(about.data.href);
      shown.close();
    };
  } catch {
    const worker = await navigator.serviceWorker?.getRegistration(); // browsers in which only a worker may show notifications
    await worker?.showNotification(title, about);
  }
}

/** Switches notifications on this device. The first time, the browser asks for permission. Returns a problem, or "". */
export async function toggleNotifications() {
  const wanted = !isOn();
  const isAllowed = !wanted || (await globalThis.Notification?.requestPermission()) === "granted";
  localStorage.setItem("notify", wanted && isAllowed ? "on" : "off");
  document.dispatchEvent(new CustomEvent("notifications-switched"));
  return isAllowed ? "" : "Your browser blocks notifications of this site. Allow them in its settings, then switch this on.";
}
