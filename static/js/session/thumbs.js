// The rating of a finished task: thumb up or down, and an optional comment. In the client API, up is 5 and down is 1.
import { h } from "../dom.js";
import { persist } from "../requests.js";

const LOST = "Your rating was not saved. Choose it again when you are back online.";
const COMMENT_LOST = "Your comment was not saved. Press Send again when you are back online.";
const UP = 4; // of 5, and more
const DOWN = 2; // of 5, and less

export function start(page) {
  document.getElementById("items").addEventListener("click", ({ target }) => {
    const thumb = target.closest(".thumb");
    if (thumb) rate(page, thumb.closest(".rating"), Number(thumb.dataset.rating));
  });
}

/** Show a rating from 1 to 5; 0 is none. */
export function showRating(row, given) {
  const pressed = given >= UP ? "5" : given && given <= DOWN ? "1" : "";
  for (const thumb of row.querySelectorAll(".thumb")) thumb.setAttribute("aria-pressed", String(thumb.dataset.rating === pressed));
  row.classList.toggle("is-rated", Boolean(given));
}

async function rate(page, row, rating, text = "") {
  const { ratings } = page.state;
  const { task } = row.dataset;
  const said = row.querySelector(".rated");
  showRating(row, rating);
  said.textContent = "";
  try {
    await persist("POST", `/tasks/${task}/feedback`, { rating, text }, text ? COMMENT_LOST : LOST);
    ratings[task] = rating;
    page.announce(text ? "Thank you. Your comment is saved." : "Your rating is saved.");
    row.querySelector(".comment")?.remove();
    if (!text) return row.append(commentForm(page, row, rating));
    said.textContent = "Thank you.";
    row.querySelector("[aria-pressed=true]").focus();
  } catch (problem) {
    showRating(row, ratings[task] ?? 0);
    said.textContent = problem.message;
    page.announce(problem.message);
  }
}

function commentForm(page, row, rating) {
  const label = rating >= UP ? "What was good?" : "What was wrong?";
  const words = h("input", { type: "text", class: "small", maxlength: 10000, placeholder: `${label} (optional)`, "aria-label": label });
  const form = h("form", { class: "comment" }, words, h("button", { class: "small" }, "Send"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (words.value.trim()) rate(page, row, rating, words.value.trim());
    else form.remove();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    form.remove();
    row.querySelector("[aria-pressed=true]").focus();
  });
  return form;
}
