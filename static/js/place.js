// Placing elements.

/** Make these the children of `parent`, in this order, moving as few as possible. */
export function setChildren(parent, wanted) {
  for (const child of [...parent.children]) if (!wanted.includes(child)) child.remove();
  wanted.forEach((child, place) => parent.children[place] === child || parent.insertBefore(child, parent.children[place] ?? null));
}

/** Below its button, or above if there is no room; on a phone the style sheet places it. */
export function placeMenu(menu, button) {
  const at = button.getBoundingClientRect();
  const { width, height } = menu.getBoundingClientRect();
  const left = at.left > innerWidth / 2 ? at.right - width : at.left;
  const top = at.bottom + height + 8 > innerHeight ? Math.max(8, at.top - height - 4) : at.bottom + 4;
  menu.style.setProperty("--left", `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`);
  menu.style.setProperty("--top", `${top}px`);
}
