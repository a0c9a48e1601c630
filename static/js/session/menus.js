// Menus by keyboard: arrows go through what there is, Home and End to its ends; Escape closes, as everywhere.

const OFFERED = [
  { load: () => import("./switching.js"), on: { click: "[data-switch]" } },
  { load: () => import("./tree.js"), on: { click: "[data-act=tree]" } },
  { load: () => import("./copying.js"), on: { click: "[data-act=copy-markdown]" } },
  { load: () => import("./sharing.js"), on: { click: "[data-act=share]" } },
];

/** The menus in the head of the page. */
export function start(page) {
  for (const feature of OFFERED) page.features.asleep.add(feature);
  for (const opener of document.querySelectorAll("#session-more, #switch")) {
    const menu = document.getElementById(opener.getAttribute("popovertarget"));
    withArrows(menu);
    menu.addEventListener("toggle", ({ newState }) => {
      opener.setAttribute("aria-expanded", newState === "open");
      if (newState === "open") choices(menu)[0]?.focus();
    });
  }
}

export function withArrows(menu) {
  menu.addEventListener("keydown", (event) => {
    const all = choices(menu);
    const place = all.indexOf(document.activeElement);
    const to = { ArrowDown: place + 1, ArrowUp: place < 0 ? -1 : place - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    all.at(to % all.length)?.focus();
  });
}

export function choices(menu) {
  return [...menu.querySelectorAll("a[href], button")].filter((one) => one.checkVisibility());
}
