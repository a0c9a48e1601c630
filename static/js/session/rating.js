// The stars of an answer, as text.

export function showStars(row, given) {
  const stars = [...row.querySelectorAll(".star")];
  stars.forEach((star, place) => {
    star.textContent = place < given ? "★" : "☆";
    star.setAttribute("aria-pressed", String(place + 1 === given));
  });
  row.querySelector(".rated").textContent = stars[given - 1]?.title ?? "";
}
