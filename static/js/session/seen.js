// How far the person has seen the session, for the lists of sessions: what was said while they looked is not new there.

const GLANCE = 400; // ms; who is gone by then has seen nothing
const PAUSE = 2000;

export function start(page) {
  let told = 0;
  let at = 0;
  let waiting = 0;

  async function tell() {
    clearTimeout(waiting);
    waiting = 0;
    const { last } = page.state;
    const row = document.querySelector(`.recent .unread[data-key="${page.id}"]`);
    const isShown = row && !at && !page.old; // whose lists are being read anew
    const detail = (row || at) && { isMoved: false, isShown };
    [told, at] = [last, Date.now()];
    try {
      await mark(page.id, { seen: last });
      if (isShown) asRead(row);
      if (detail) document.dispatchEvent(new CustomEvent("sessions-changed", { detail }));
    } catch {
      told = 0; // what comes next is told with it
    }
  }

  function look() {
    if (document.hidden) return waiting && tell(); // who leaves has seen it
    if (waiting || page.state.last <= told) return;
    waiting = setTimeout(tell, Math.max(GLANCE, at + PAUSE - Date.now()));
  }

  page.on("entries", (fresh) => fresh.some(({ type, message }) => message && type !== "user_message") && look());
  document.addEventListener("visibilitychange", look);
  look();
}

/** The list need not be drawn anew for that. */
function asRead(row) {
  row.classList.remove("unread");
  row.querySelector(".new").remove();
}

/** A page that was kept may have an old token; then this takes what renews it. */
async function mark(session, seen) {
  const [path, token] = [`/sessions/${session}/mark`, document.querySelector("[name=csrfmiddlewaretoken]").value];
  const headers = { "Content-Type": "application/json", "X-CSRFToken": token };
  const answer = await fetch(`/api/v1${path}`, { method: "PUT", headers, body: JSON.stringify(seen), keepalive: true });
  if (answer.status === 403) await (await import("../requests.js")).api("PUT", path, seen);
  else if (!answer.ok) throw new Error(`${answer.status}`);
}
