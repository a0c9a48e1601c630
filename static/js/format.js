// Times and sizes for people: short in place, complete on hover.

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

export function shortTime(at) {
  const date = new Date(at);
  return date.toDateString() === new Date().toDateString()
    ? clock.format(date)
    : `${day.format(date)}, ${clock.format(date)}`;
}

export function localizeTime(time) {
  time.textContent = shortTime(time.dateTime);
  time.title = whole.format(new Date(time.dateTime));
}

export function bytes(size) {
  if (size === null || size === undefined) return "";
  if (size < 1000) return `${size} B`;
  if (size < 1e6) return `${(size / 1e3).toFixed(size < 1e4 ? 1 : 0)} kB`;
  return `${(size / 1e6).toFixed(1)} MB`;
}
