// Who may see the session, and links by which anybody may read the session as it is now: creating, copying, listing, revoking.
import { copyText } from "../clipboard.js";
import { showDialog } from "../dialog.js";
import { h, icon } from "../dom.js";
import { shortTime } from "../format.js";
import { api } from "../requests.js";

const DAYS = [[1, "1 day"], [7, "7 days"], [30, "30 days"], [365, "1 year"]];

export function start(page) {
  document.querySelector("#session-menu [data-act=share]").addEventListener("click", () => {
    document.getElementById("session-menu").hidePopover();
    new Sharing(page);
  });
}

/** While a request runs, the button does nothing; its focus comes back, unless it moved elsewhere. */
async function once(button, run) {
  if (button.disabled) return;
  button.disabled = true;
  await run();
  button.disabled = false;
  if (document.activeElement.matches("body, dialog")) button.focus();
}

class Sharing {
  constructor(page) {
    this.address = `/sessions/${page.id}/shares`;
    page.sharing ??= page.beginning.sharing;
    this.error = h("p", { class: "error small", role: "alert", hidden: true });
    this.made = h("div", { class: "share-made", role: "status" });
    this.links = h("ul", { class: "plain share-links" });
    this.none = h("p", { class: "muted small", hidden: true }, "No links yet.");
    this.heading = h("h3", { tabindex: "-1" }, "Links");
    const intro = "Anyone with the link can read the session as it is now, without signing in. Later messages are not shared.";
    this.dialog = showDialog(
      "Share this session",
      [this.choice(page), h("h3", {}, "Read-only links"), h("p", { class: "muted" }, intro), this.form(), this.error, this.made, this.heading, this.links, this.none],
      document.getElementById("session-more"),
    );
    this.list();
  }

  /** Private, or shared with the members of the workspace, who also write in it. */
  choice(page) {
    const option = ([value, name]) => {
      const input = h("input", { type: "radio", name: "sharing", value, id: `sharing-${value}`, checked: value === page.sharing });
      return h("label", { class: "share-choice", for: `sharing-${value}` }, input, name);
    };
    const options = Object.entries({ private: "Only you, apart from links below", workspace: "Members of this workspace, who can also write here" });
    const choice = h("fieldset", { class: "share-who" }, h("legend", {}, "Who can open this session"), options.map(option));
    choice.addEventListener("change", async ({ target }) => {
      const changed = await this.tried(() => api("PATCH", `/sessions/${page.id}`, { sharing: target.value }));
      if (changed) page.sharing = changed.sharing;
      choice.querySelector(`[value=${page.sharing}]`).checked = true;
    });
    return choice;
  }

  form() {
    const days = h("select", { id: "share-days", name: "days" }, DAYS.map(([value, name]) => h("option", { value, selected: value === 30 }, name)));
    const files = h("input", { type: "checkbox", name: "files", id: "share-files" });
    const branches = h("input", { type: "checkbox", name: "branches", id: "share-branches" });
    const form = h(
      "form",
      { class: "share-form" },
      h("label", { for: "share-days" }, "Link expires after"),
      days,
      h("label", { class: "share-choice", for: "share-files" }, files, "Include files"),
      h("label", { class: "share-choice", for: "share-branches" }, branches, "Include branches"),
      h("button", { type: "submit", class: "primary" }, "Create link"),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const asked = { expiresInDays: Number(days.value), withArtifacts: files.checked, withBranches: branches.checked };
      once(event.submitter ?? form.querySelector("button"), () => this.make(asked));
    });
    return form;
  }

  async make(asked) {
    const share = await this.tried(() => api("POST", this.address, asked));
    if (!share) return;
    const field = h("input", { type: "text", readonly: true, value: share.url, "aria-label": "The link" });
    const note = h("p", { class: "small muted" }, "Copy the link now. It is not shown again.");
    const tell = (words) => (note.textContent = words); // screen readers ignore text beside a dialog
    const copy = h("button", { type: "button", onclick: () => copyText(share.url, "Link copied.", tell) }, icon("copy"), "Copy");
    this.made.replaceChildren(h("div", { class: "share-link" }, field, copy), note);
    field.focus();
    field.select();
    await this.list(share.id);
  }

  async list(fresh = "") {
    const answer = await this.tried(() => api("GET", this.address));
    if (!answer) return;
    this.none.hidden = answer.items.length > 0;
    this.links.replaceChildren(...answer.items.map((share) => this.link(share, share.id === fresh)));
  }

  link(share, isFresh) {
    const what = [share.withArtifacts && "with files", share.withBranches && "with forks"].filter(Boolean);
    const made = `${isFresh ? "Created just now" : `Created ${shortTime(share.createdAt)}`}, expires ${shortTime(share.expiresAt)}`;
    const sentence = [made, ...what].join(", ");
    const run = ({ currentTarget }) => once(currentTarget, () => this.takeBack(share));
    const back = h("button", { type: "button", "aria-label": `Revoke: ${sentence}`, onclick: run }, "Revoke");
    return h("li", {}, h("span", {}, sentence), back);
  }

  async takeBack(share) {
    if ((await this.tried(() => api("DELETE", `${this.address}/${share.id}`))) === undefined) return;
    this.made.replaceChildren(h("p", { class: "small" }, "Link revoked. It no longer works."));
    await this.list();
    this.heading.focus();
  }

  /** The result of `ask`; undefined if it is refused, after showing the sentence. */
  async tried(ask) {
    this.error.hidden = true;
    try {
      return await ask();
    } catch (problem) {
      this.error.textContent = problem.message;
      this.error.hidden = false;
      return undefined;
    }
  }
}
