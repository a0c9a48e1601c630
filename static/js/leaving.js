// Signing out, from a page that may have been kept: its token can be an old one, which the server would not take.
import { Unreachable, renew } from "./post.js";
import { toast } from "./toast.js";

export async function leave(form) {
  try {
    await renew();
  } catch (problem) {
    if (problem instanceof Unreachable) return toast("You are offline. Sign out when the line is back.");
  }
  if (localStorage.getItem(`parley.deleting.${document.body.dataset.user}`)) await (await import("./deleting.js")).finish();
  return form.submit();
}
