// Whether the reader may write here, after a change of their role.

export function showRole({ composer: { form, words } }, mayWrite) {
  const note = document.getElementById("read-only");
  const had = form.contains(document.activeElement);
  form.hidden = !mayWrite;
  note.textContent = mayWrite ? "" : note.dataset.words;
  if (had && !mayWrite) document.getElementById("transcript").focus({ preventScroll: true });
  if (mayWrite && document.activeElement === document.body) words.focus();
}
