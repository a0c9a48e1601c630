// Chooses who answers one message, and begins the comparison: from the composer, or from the menu of an answer.
import { showDialog } from "../dialog.js";
import { h } from "../dom.js";
import { api, uuid } from "../requests.js";

/** What a composer calls: `pressed` is the first click, which loaded this module. */
export function start(button, composer, pressed) {
  const open = () => choose(button, firstOf(composer), null, () => messageOf(composer), () => composer.sender.clear());
  button.addEventListener("click", open);
  if (pressed) open();
}

/** What a message's menu calls. */
export async function act(page, item) {
  const { idOf } = await import("../session/editing.js");
  const message = async () => ({ sessionId: page.id, answerId: await idOf(page, item) });
  await choose(document.activeElement, item.agent?.slug ?? page.state.agent.slug, true, message, () => {});
}

const firstOf = (composer) => composer.form.querySelector("[data-slug]").dataset.slug;

async function choose(opener, agent, hasAnswer, message, done) {
  const form = h("form", { class: "answerers" }, h("p", { role: "status" }, "One moment…"));
  const dialog = showDialog(hasAnswer ? "Compare with" : "Compare answers", [form], opener);
  const key = uuid();
  try {
    const query = new URLSearchParams({ agent, ...(hasAnswer && { answer: "" }) });
    const answer = await fetch(`/comparisons/answerers?${query}`);
    if (!answer.ok || answer.redirected) throw new Error();
    form.replaceChildren(...new DOMParser().parseFromString(await answer.text(), "text/html").body.childNodes);
  } catch {
    return form.replaceChildren(h("p", { class: "error", role: "alert" }, "The agents could not be loaded. Close this, and try again."));
  }
  form.querySelector("select").focus();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form, key, message, done, dialog);
  });
}

async function send(form, key, message, done, dialog) {
  const [error, button] = [form.querySelector("[role=alert]"), form.querySelector("[type=submit]")];
  error.hidden = button.disabled = true;
  try {
    const asked = { ...(await message()), answerers: answerersOf(form), blind: form.elements.blind.checked };
    const made = await api("POST", "/comparisons", asked, { key });
    done();
    dialog.close();
    location.assign(`/comparisons/${made.id}`);
  } catch (problem) {
    const [wrong] = problem.problem?.errors ?? [];
    error.textContent = wrong?.message ?? problem.message;
    error.hidden = button.disabled = false;
  }
}

/** A value is a slug, or a slug, "model" or "version", and which. */
function answerersOf(form) {
  const chosen = [...form.querySelectorAll("[name=side]")].map(({ value }) => value).filter(Boolean);
  return chosen.map((value) => {
    const [agent, kind, ...rest] = value.split(" ");
    if (kind === "model") return { agent, options: { model: rest.join(" ") } };
    return kind ? { agent, version: Number(rest[0]) } : { agent };
  });
}

/** What is written in the composer, with its files. */
async function messageOf(composer) {
  const sender = (await composer.submitting()) ?? {};
  if (!(sender.attachments?.areThere ?? true) && !(await sender.isReady())) throw new Error("Wait until your files are uploaded.");
  const text = composer.words.value.trim();
  const parts = await Promise.all((sender.attachments?.said() ?? []).map(part));
  if (!text && !parts.length) throw new Error("Write your message first.");
  const { session } = JSON.parse(document.getElementById("beginning")?.textContent ?? "{}");
  const { project, temporary } = Object.fromEntries(composer.fixed());
  const place = session ? { sessionId: session } : { ...(project && { project }), ...(temporary && { temporary: true }) };
  return { ...place, ...(text && { text }), ...(parts.length && { parts }) };
}

async function part([kind, file]) {
  if (kind === "large") return { uploadId: file.id, filename: file.name };
  return { raw: await base64(file), filename: file.name, ...(file.type && { mediaType: file.type }) };
}

function base64(file) {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => done(reader.result.slice(reader.result.indexOf(",") + 1)));
    reader.addEventListener("error", () => fail(new Error(`${file.name} could not be read. Choose it again.`)));
    reader.readAsDataURL(file);
  });
}
