// Putting elements where they belong.

/** Let `parent` have these children, in this order; as few as possible are moved. */
export function setChildren(parent, wanted) {
  for (const child of [...parent.children]) if (!wanted.includes(child)) child.remove();
  wanted.forEach((child, place) => parent.children[place] === child || parent.insertBefore(child, parent.children[place] ?? null));
}

/** Below its button, or above where there is no room; on a phone the style sheet puts it at the thumb. */
export function placeMenu(menu, button) {
  const at = button.getBoundingClientRect();
  const { width, height } = menu.getBoundingClientRect();
  const left = at.left > innerWidth / 2 ? at.right - width : at.left;
  const top = at.bottom + height + 8 > innerHeight ? Math.max(8, at.top - height - 4) : at.bottom + 4;
  menu.style.setProperty("--left", `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`);
  menu.style.setProperty("--top", `${top}px`);
}
