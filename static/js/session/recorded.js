// Messages as the client API knows them.
import { api } from "../api.js";

/** The id of a message of the session. */
export async function idOf(page, item) {
  const { items } = await api("GET", `/sessions/${page.id}/messages?index=${item.index}`);
  if (!items.length) throw new Error("This message is no longer there. Load the page again.");
  return items[0].id;
}
