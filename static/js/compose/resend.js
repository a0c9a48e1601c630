// Sends waiting messages of other pages. A page with outboxes sends its own.
import { copyText } from "../clipboard.js";
import { toast } from "../toast.js";
import { drop, outboxes, sendAll } from "./outbox.js";

const SOON = 1500; // ms in which a page opens its own outboxes
const told = new Set(); // ids of messages, each reported once

export async function sendOthers() {
  for (const outbox of outboxes.values()) outbox.hurry();
  await new Promise((done) => setTimeout(done, SOON));
  const refused = await sendAll();
  for (const message of refused.filter(({ id }) => !told.has(id))) {
    told.add(message.id);
    toast(`A message could not be sent. ${message.refused}`, wayOut(message));
  }
}

/** If the session was deleted, the message cannot be sent, but its words are kept. */
function wayOut({ id, session, text, said, isGone }) {
  if (!isGone) return { name: "Open", run: () => location.assign(pageOf(session)) };
  const run = async () => (!text || (await copyText(text)) ? drop(id) : told.delete(id));
  const hasFiles = said.some(([, value]) => typeof value !== "string");
  const what = hasFiles ? "Copy its text" : "Copy it";
  return { name: text ? `${what} and discard` : "Discard", run, stays: 60_000 };
}

function pageOf(session) {
  const [, agent] = session.split("new:");
  if (agent === undefined) return `/sessions/${session.split("/")[0]}`;
  return agent ? `/agents/${agent}` : "/"; // home has no agent of its own
}
