// What files the agent of the next message takes, by media types, and what a file is.

const TYPES = { csv: "text/csv", tsv: "text/tab-separated-values", md: "text/markdown", json: "application/json", yaml: "application/yaml", yml: "application/yaml" };
const HEAD = 8192; // bytes by which text is recognized; as in `apps/record/content/parts.py`
const BINARY = /[\x00-\x08\x0e-\x1a\x1c-\x1f]/;

/** `taker`: the dataset of an agent's element. */
export function takes({ takes: modes = "*/*" }, type) {
  return modes.split(" ").some((mode) => mode === "*/*" || mode === type || (mode.endsWith("/*") && type.startsWith(mode.slice(0, -1))));
}

/** The media type by the name, or else as the browser knows it. */
export const typeOf = ({ name, type }) => TYPES[name.split(".").at(-1).toLowerCase()] ?? type.split(";")[0];

/** Does its beginning look like text, in whatever encoding? */
export async function isText(file) {
  const head = new Uint8Array(await file.slice(0, HEAD).arrayBuffer());
  const mark = head[0] * 256 + head[1];
  return mark === 0xfffe || mark === 0xfeff || !BINARY.test(new TextDecoder("latin1").decode(head));
}
