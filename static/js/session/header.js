// The menus in the head of a conversation. Their actions are loaded when they are chosen.
import { choices, withArrows } from "../menu.js";

const OFFERED = [
  { load: () => import("./offered.js"), start: "startSwitching", on: { click: "[data-switch]" } },
  { load: () => import("./tree.js"), on: { click: "[data-act=tree]" } },
  { load: () => import("./offered.js"), start: "startCopying", on: { click: "[data-act=copy-markdown]" } },
  { load: () => import("./allowed.js"), on: { click: "[data-act=allowed]" } },
  { load: () => import("./sharing.js"), on: { click: "[data-act=share]" } },
];

export function start(page) {
  for (const offered of OFFERED) page.features.asleep.add(offered);
  for (const opener of document.querySelectorAll("#session-more, #switch")) {
    const menu = document.getElementById(opener.getAttribute("popovertarget"));
    withArrows(menu);
    menu.addEventListener("toggle", ({ newState }) => {
      opener.setAttribute("aria-expanded", newState === "open");
      if (newState === "open") choices(menu)[0]?.focus();
    });
  }
}
