// Completes the commands of prompts after a / at the beginning of a line. The chosen one's text takes the place of the command, and the
// person sends it.
import { showDialog } from "../dialog.js";
import { complain, read } from "../question-form.js";
import { post } from "../requests.js";
import { Completion } from "./completing.js";

const TYPED = /(?<=^|\n)\/([a-z0-9-]*)$/i; // before the cursor
const LOST = "Nothing was inserted. Try again when you are online.";

export class Prompts extends Completion {
  constructor(composer) {
    super(composer, "prompts", "Prompts", TYPED);
    document.addEventListener("visibilitychange", () => (this.known = null)); // perhaps one was written in another tab
  }

  async load() {
    const page = await drawn(this.composer.form.querySelector(".composer-field").dataset.prompts);
    return [...page.querySelectorAll("[role=option]")].map((one) => document.adoptNode(one));
  }

  namesOf({ dataset }) {
    return [dataset.slug, dataset.name];
  }

  async take({ dataset: { address, asks } }) {
    const end = this.words.selectionStart;
    const start = end - TYPED.exec(this.before)[0].length;
    const insert = ({ text }) => {
      this.words.setRangeText(text, start, end, "end");
      this.words.focus();
      this.words.dispatchEvent(new Event("input")); // perhaps the text names an agent
    };
    this.composer.complain("");
    try {
      if (asks === undefined) insert(await post(`${address}/text`, {}, LOST));
      else this.ask(await drawn(`${address}/fields`), insert);
    } catch (problem) {
      this.composer.complain(problem.message);
    }
  }

  /** Shows the form of the variables. */
  ask(page, insert) {
    const form = document.adoptNode(page.querySelector("form"));
    const dialog = showDialog(form.dataset.title, form, this.words);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const said = form.ariaBusy ? null : read(form);
      if (!said) return;
      form.ariaBusy = "true";
      try {
        const answer = await post(form.action, said.form, LOST);
        dialog.close();
        insert(answer);
      } catch (problem) {
        complain(form, problem.message, problem.field);
      }
      form.ariaBusy = null;
    });
    (form.querySelector("input:not([type=hidden], [type=radio]), textarea") ?? form.querySelector("input:checked, button")).focus();
  }
}

async function drawn(address) {
  const answer = await fetch(address);
  if (!answer.ok || answer.redirected) throw new Error("The prompts could not be loaded. Try again.");
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}
