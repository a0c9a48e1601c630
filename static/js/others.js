// What waits to be sent in other sessions than the one that is open, which sends its own.
import { toast } from "./toast.js";
import { sendAll } from "./unsent.js";

export async function sendOthers() {
  const [, place, here] = location.pathname.split("/");
  const refused = await sendAll(place === "sessions" ? here : "");
  for (const { session, refused: sentence } of refused) {
    toast(`A message could not be sent. ${sentence}`, { name: "Open", run: () => location.assign(`/sessions/${session.split("/")[0]}`) });
  }
}
