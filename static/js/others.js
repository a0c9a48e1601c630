// What waits to be sent elsewhere than on the page that is open, which sends its own.
import { copyText } from "./copying.js";
import { toast } from "./toast.js";
import { drop, sendAll } from "./unsent.js";

const told = new Set(); // ids of messages: each is told of once

export async function sendOthers() {
  const [, place, here, more] = location.pathname.split("/");
  const refused = await sendAll(place === "agents" && !more ? `new:${here}` : place === "sessions" ? here : "");
  for (const message of refused.filter(({ id }) => !told.has(id))) {
    told.add(message.id);
    toast(`A message could not be sent. ${message.refused}`, wayOut(message));
  }
}

/** Where its session is gone, nothing else can be done with it; its files are not lost by that. */
function wayOut({ id, session, text, said, isGone }) {
  if (!isGone) return { name: "Open", run: () => location.assign(pageOf(session)) };
  if (!text || said.some(([, value]) => typeof value !== "string")) return null;
  const run = async () => ((await copyText(text)) ? drop(id) : told.delete(id));
  return { name: "Copy it, and let it go", run, stays: 60_000 };
}

function pageOf(session) {
  const [, agent] = session.split("new:");
  return agent ? `/agents/${agent}` : `/sessions/${session.split("/")[0]}`;
}
