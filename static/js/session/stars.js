// What the person thinks of a finished task: one to five stars, and some words if they like.
import { h } from "../dom.js";
import { post } from "../post.js";

const WORDS = ["", "Useless", "Poor", "Fair", "Good", "Excellent"];

/** A row of stars below an answer; `rated` says how many were given before. */
export function stars(address, taskId, rated = 0) {
  const said = h("span", { class: "muted small", role: "status" }, WORDS[rated]);
  const row = h("div", { class: "stars", role: "group", "aria-label": "Rate this answer" });
  const words = h("input", { type: "text", class: "small", maxlength: 10000, placeholder: "Why? (optional)", "aria-label": "Why?" });
  const more = h("form", { class: "more-words", hidden: true }, words, h("button", { class: "small" }, "Send"));
  let given = rated;

  const buttons = [1, 2, 3, 4, 5].map((count) =>
    h("button", { type: "button", class: "quiet star", title: WORDS[count], onclick: () => give(count) }, ""),
  );
  row.append(...buttons);
  more.addEventListener("submit", (event) => {
    event.preventDefault();
    give(given, words.value.trim());
  });
  draw();
  return h("div", { class: "rating" }, row, said, more);

  function draw() {
    buttons.forEach((button, at) => {
      button.textContent = at < given ? "★" : "☆";
      button.setAttribute("aria-label", `${at + 1} of 5: ${WORDS[at + 1]}`);
      button.setAttribute("aria-pressed", String(at + 1 === given));
    });
  }

  async function give(count, text = "") {
    const before = given;
    given = count;
    draw();
    const form = new FormData();
    form.append("task", taskId);
    form.append("rating", count);
    form.append("text", text);
    try {
      await post(address, form);
      said.textContent = text ? "Thank you." : WORDS[count];
      more.hidden = Boolean(text);
    } catch (problem) {
      given = before;
      draw();
      said.textContent = problem.message;
    }
  }
}
