// The rating of a finished task: one to five stars, and an optional comment.
import { h } from "../dom.js";
import { post } from "../requests.js";
import { showStars } from "./rating.js";

const LOST = "Your rating was not taken. Choose it again when the line is back.";
const WORDS_LOST = "Your words were not taken. Press Send again when the line is back.";

export function start(page) {
  document.getElementById("items").addEventListener("click", ({ target }) => {
    const star = target.closest(".star");
    if (star) give(page, star.closest(".rating"), Number(star.dataset.count));
  });
}

async function give(page, row, count, text = "") {
  const { ratings } = page.state;
  const { task } = row.dataset;
  const said = row.querySelector(".rated");
  showStars(row, count);
  try {
    await post(page.beginning.rate, { task, rating: count, text }, text ? WORDS_LOST : LOST);
    ratings[task] = count;
    if (text) said.textContent = "Thank you.";
    page.announce(said.textContent);
    row.querySelector(".more-words")?.remove();
    if (text) row.querySelector("[aria-pressed=true]").focus();
    else row.append(askWhy(page, row, count));
  } catch (problem) {
    showStars(row, ratings[task] ?? 0);
    said.textContent = problem.message;
    page.announce(problem.message);
  }
}

/** The optional comment. */
function askWhy(page, row, count) {
  const words = h("input", { type: "text", class: "small", maxlength: 10000, placeholder: "Why? (optional)", "aria-label": "Why?" });
  const more = h("form", { class: "more-words" }, words, h("button", { class: "small" }, "Send"));
  more.addEventListener("submit", (event) => {
    event.preventDefault();
    give(page, row, count, words.value.trim());
  });
  return more;
}
