// Importing conversations: a large file is uploaded in pieces, and a long list is searched.
import { bytes } from "../format.js";

const LARGE = 1e6; // bytes from which on a file goes in pieces

const form = document.getElementById("import-file");
form?.addEventListener("submit", async (event) => {
  const [file] = form.elements.file.files;
  if (!file || file.size < LARGE) return;
  event.preventDefault();
  const [button, status] = [form.querySelector("button"), form.querySelector("[role=status]")];
  const bar = status.querySelector("progress");
  button.disabled = true;
  status.hidden = bar.hidden = false;
  status.querySelector("label").textContent = `Uploading ${bytes(file.size)}`;
  try {
    const { upload } = await import("../compose/attachments.js");
    form.elements.upload.value = await upload(file, { progress: (fraction) => (bar.value = fraction) });
    form.elements.file.disabled = true;
    form.submit();
  } catch (problem) {
    status.querySelector("label").textContent = problem.message || "The file could not be uploaded. Try again.";
    bar.hidden = true;
    button.disabled = false;
  }
});
addEventListener("pageshow", () => form && (form.elements.file.disabled = form.querySelector("button").disabled = false));

const tools = document.querySelector(".import-tools");
if (tools) {
  const rows = [...document.querySelectorAll(".import-list li")];
  const [search, submit] = [tools.querySelector("input"), document.querySelector(".import-choice button.primary")];
  const boxes = rows.map((row) => row.querySelector("input"));
  const count = () => (submit.disabled = boxes.every(({ checked }) => !checked) && !document.querySelector(".import-choice [data-more]"));
  tools.hidden = false;
  search.hidden = rows.length < 10;
  search.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault()); // it would import
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(words);
  });
  for (const button of tools.querySelectorAll("[data-check]")) {
    button.addEventListener("click", () => {
      for (const row of rows) if (!row.hidden) row.querySelector("input").checked = button.dataset.check === "all";
      count();
    });
  }
  document.querySelector(".import-list").addEventListener("change", count);
}
