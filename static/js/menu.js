// Menus by keyboard: arrows move, Home and End go to the ends, Tab and Escape close.

export function withArrows(menu) {
  menu.addEventListener("keydown", (event) => {
    const all = choices(menu);
    const place = all.indexOf(document.activeElement);
    if (event.key === "Tab" && menu.popover) menu.hidePopover();
    if (event.target.matches("input")) return;
    const to = { ArrowDown: place + 1, ArrowUp: place < 0 ? -1 : place - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    all.at(to % all.length)?.focus();
  });
}

export function choices(menu) {
  return [...menu.querySelectorAll("a[href], button")].filter((one) => one.checkVisibility());
}
