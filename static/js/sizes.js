// Sizes as people say them.

export function bytes(size) {
  if (size === null || size === undefined) return "";
  if (size < 1000) return `${size} B`;
  if (size < 1e6) return `${(size / 1e3).toFixed(size < 1e4 ? 1 : 0)} kB`;
  return `${(size / 1e6).toFixed(1)} MB`;
}
