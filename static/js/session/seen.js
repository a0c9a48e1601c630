// Reports how far the person has seen the session, so that lists of sessions do not mark it as new.

const GLANCE = 400; // ms; a shorter visit does not count
const PAUSE = 2000;

export function start(page) {
  let told = 0;
  let at = 0;
  let waiting = 0;

  async function tell() {
    clearTimeout(waiting);
    waiting = 0;
    const { last } = page.state;
    const row = document.querySelector(`.recent .unread > [data-session="${page.id}"]`)?.parentElement;
    const isShown = row && !at && !page.old; // lists that are being read again
    const detail = (row || at) && { isMoved: false, isShown };
    [told, at] = [last, Date.now()];
    try {
      await mark(page.id, { seen: last });
      if (isShown) asRead(row);
      if (detail) document.dispatchEvent(new CustomEvent("sessions-changed", { detail }));
    } catch {
      told = 0; // the next report includes it
    }
  }

  function look() {
    if (document.hidden) return waiting && tell(); // leaving counts as seen
    if (waiting || page.state.last <= told) return;
    waiting = setTimeout(tell, Math.max(GLANCE, at + PAUSE - Date.now()));
  }

  page.on("patched", ({ said, open }) => (said || open) && look());
  document.addEventListener("visibilitychange", look);
  look();
}

/** The list need not be redrawn for that. */
function asRead(row) {
  row.classList.remove("unread");
  row.querySelector(".new").remove();
}

/** A page that was kept may have an old token; then the request with renewal is used. */
async function mark(session, seen) {
  const [path, token] = [`/sessions/${session}/mark`, document.querySelector("[name=csrfmiddlewaretoken]").value];
  const headers = { "Content-Type": "application/json", "X-CSRFToken": token };
  const answer = await fetch(`/api/v1${path}`, { method: "PUT", headers, body: JSON.stringify(seen), keepalive: true });
  if (answer.status === 403) await (await import("../requests.js")).api("PUT", path, seen);
  else if (!answer.ok) throw new Error(`${answer.status}`);
}
