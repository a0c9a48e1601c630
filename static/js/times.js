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

export function seconds(from, to) {
  const passed = Math.max(0, (new Date(to) - new Date(from)) / 1000);
  if (passed < 0.1) return "less than 0.1 s";
  if (passed < 10) return `${passed.toFixed(1)} s`;
  if (passed < 60) return `${Math.floor(passed)} s`;
  const minutes = Math.floor(passed / 60);
  return minutes < 60 ? `${minutes} min ${Math.floor(passed % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
