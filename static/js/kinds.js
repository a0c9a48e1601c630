// What a media type is called where people read it.

const KINDS = {
  "application/pdf": "PDF",
  "application/json": "JSON",
  "text/markdown": "Markdown",
  "text/plain": "Text",
  "text/html": "HTML",
  "text/csv": "CSV",
  "image/svg+xml": "SVG",
};

export function kindOf(mediaType) {
  return KINDS[mediaType] ?? (mediaType.split("/")[1] ?? mediaType).replace(/^(x-|vnd\.)/, "").slice(0, 24).toUpperCase();
}
