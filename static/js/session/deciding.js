// Decides about tool calls in their session.
import { complainAbout, decide, watchCards } from "../approvals.js";

export function start(page, items) {
  watchCards(items, async (form, button) => {
    form.inert = true; // until the log has the decision, or it is refused
    page.end.scroller.focus({ preventScroll: true }); // an inert element would lose the focus
    try {
      await decide(form, button);
      if (button.value === "always") document.querySelector("#session-menu [data-act=allowed]")?.removeAttribute("hidden");
    } catch (problem) {
      form.inert = false;
      button.focus({ preventScroll: true });
      complainAbout(form, problem);
    }
  });
}
