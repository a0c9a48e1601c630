// Files that are dragged onto a page go with what is written there. It is loaded when something is dragged for the first time.

/** `composer`: whom the files are for. */
export function start(composer) {
  const dragged = (event, over) => {
    if (!event.dataTransfer?.types.includes("Files")) return false;
    event.preventDefault();
    composer.form.classList.toggle("dropping", over);
    return true;
  };
  document.addEventListener("dragover", (event) => dragged(event, true));
  document.addEventListener("dragleave", (event) => event.relatedTarget || composer.form.classList.remove("dropping"));
  document.addEventListener("drop", (event) => dragged(event, false) && composer.attach(event.dataTransfer.files));
}
