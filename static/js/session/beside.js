// What the server draws beside a conversation (its newest task in time, its files, what waits to be sent) is drawn anew when
// something begins, waits or ends, and when somebody comes back.

const APART = 1500; // ms between two pictures

export function start(page) {
  const renew = () => import("./renewing.js").then(({ renewQueue }) => renewQueue(), () => {});
  const timeline = document.getElementById("panel-timeline");
  let isGone = false;
  let due = null;
  const drawTimeline = () => {
    due = null;
    if (!isGone) htmx.trigger(timeline, "turned");
  };
  const delivers = ({ index, artifacts }) => artifacts?.length && index > page.beginning.last;
  let lacksFiles = page.entries.some(delivers); // the list, of what was delivered
  const renewFiles = async () => {
    lacksFiles = false; // unless that fails: then it is tried again with the next word
    lacksFiles = !(await import("./files.js").then((files) => files.renewFiles(), () => false));
  };
  const renewLists = () => {
    if (!isGone && (page.old || document.querySelector("#queued li"))) renew();
    if (!isGone && lacksFiles) renewFiles();
  };
  const draw = () => {
    due ??= setTimeout(drawTimeline, APART);
    renewLists();
  };
  const isTurn = ({ type, progress }) => type === "user_message" || (type === "agent_status" && !progress);
  page.on("entries", (fresh) => {
    if (fresh.some(delivers)) renewFiles();
    if (fresh.some(isTurn)) draw();
  });
  page.on("line", (name) => {
    isGone ||= name === "gone";
    if (name === "live") draw();
  });
  document.addEventListener("visibilitychange", () => document.hidden || draw());
  page.on("old", () => {
    lacksFiles = true;
    draw();
  });
  lacksFiles ||= Boolean(page.old);
  drawTimeline();
  renewLists();
}
