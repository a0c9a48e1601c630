// The client API, as pages call it: JSON both ways, with the cookie and its token. A refusal is an error with its sentence.
import { Refused, asked } from "./post.js";

/**
 * `api("POST", "/sessions/…/archive", {…})` gives what came (null for nothing). Throws Refused (with `status` and `problem`)
 * or Unreachable. `key` is the Idempotency-Key of what may be sent again; `keepalive` sends it though the page is left; a `body`
 * of bytes goes as it is.
 */
export async function api(method, path, body = undefined, { key = "", headers = {}, signal = undefined, keepalive = false } = {}) {
  const isBytes = body instanceof Blob;
  const type = isBytes ? "application/octet-stream" : "application/json";
  const answer = await asked(`/api/v1${path}`, {
    method,
    signal,
    keepalive,
    headers: { Accept: "application/json", ...(body !== undefined && { "Content-Type": type }), ...(key && { "Idempotency-Key": key }), ...headers },
    body: isBytes || body === undefined ? body : JSON.stringify(body),
  });
  const said = answer.status === 204 ? null : await answer.json().catch(() => null);
  if (answer.ok) return said;
  throw Object.assign(new Refused(said?.detail ?? "The server could not do this. Wait a moment, then try again.", answer.status), {
    problem: said,
  });
}
