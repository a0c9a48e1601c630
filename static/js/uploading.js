// A large file goes to the server in pieces, and goes on where it was cut off (`docs/client-api`: uploads).
import { api } from "./api.js";

export const LARGE = 1e6; // bytes from which on a file goes in pieces
const [SMALLEST, FIRST, LARGEST] = [2 ** 18, 2 ** 19, 2 ** 23]; // bytes of a piece
const [QUICK, SLOW] = [500, 2000]; // ms that a piece takes: a person sees how far it is, and a cut costs little

/**
 * Gives the id by which a message names the file. `id` is that of an upload that was begun; `announced(id)` is told a new
 * one, `progress(fraction)` how far it is. Throws Refused, Unreachable, and what `signal` says.
 */
export async function upload(file, { id = "", signal, announced = () => {}, progress = () => {} } = {}) {
  let at = id ? await offsetOf(id, signal) : null;
  if (at === null) {
    ({ id } = await api("POST", "/uploads", { filename: file.name, size: file.size, mediaType: file.type }, { signal }));
    announced(id);
    at = 0;
  }
  for (let size = FIRST; at < file.size; ) {
    progress(at / file.size);
    const begun = performance.now();
    at = await append(id, at, file.slice(at, at + size), signal);
    const took = performance.now() - begun;
    if (took < QUICK) size = Math.min(size * 2, LARGEST);
    if (took > SLOW) size = Math.max(size / 2, SMALLEST);
  }
  progress(1);
  return id;
}

/** Give an upload up; what came of it is deleted by itself some day where this does not get through. */
export function discard(id) {
  return api("DELETE", `/uploads/${id}`).catch(() => {});
}

async function offsetOf(id, signal) {
  try {
    return (await api("GET", `/uploads/${id}`, undefined, { signal })).offset;
  } catch (problem) {
    if (problem.status === 404) return null; // it has expired
    throw problem;
  }
}

async function append(id, at, piece, signal) {
  try {
    return (await api("PATCH", `/uploads/${id}`, piece, { signal, headers: { "Upload-Offset": String(at) } })).offset;
  } catch (problem) {
    if (problem.status === 409) return offsetOf(id, signal); // the answer to the piece before was lost
    throw problem;
  }
}
