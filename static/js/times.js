// Times as people say them: short where they stand, whole when one asks.
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

export function short(at) {
  const date = new Date(at);
  return date.toDateString() === new Date().toDateString()
    ? clock.format(date)
    : `${day.format(date)}, ${clock.format(date)}`;
}

export function dress(time) {
  time.textContent = short(time.dateTime);
  time.title = whole.format(new Date(time.dateTime));
}
