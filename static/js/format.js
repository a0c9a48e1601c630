// Times and sizes for people: short in place, complete on hover. Times are written as the server does (`parley/faces/clock.py`).

const { clock = "24", dates = "day", zone } = document.documentElement.dataset;
const numbers = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" };
const format = new Intl.DateTimeFormat("en-US", { ...numbers, weekday: "long", hourCycle: clock === "12" ? "h12" : "h23", timeZone: zone });

const partsOf = (at) => Object.fromEntries(format.formatToParts(new Date(at)).map(({ type, value }) => [type, value]));

/** "15:46" or "3:46 PM". */
export function timeOfDay(at, withSeconds = false) {
  const { hour, minute, second, dayPeriod } = partsOf(at);
  const exact = withSeconds ? `${minute}:${second}` : minute;
  return clock === "12" ? `${Number(hour)}:${exact} ${dayPeriod}` : `${hour}:${exact}`;
}

function dayOf(at, withYear = false) {
  const { day, month, year } = partsOf(at);
  if (dates === "month") return withYear ? `${month} ${day}, ${year}` : `${month} ${day}`;
  return withYear ? `${day} ${month} ${year}` : `${day} ${month}`;
}

/** The time alone today; otherwise with the day, and with the year unless it is this one. */
export function shortTime(at) {
  const now = Date.now();
  if (dayOf(at, true) === dayOf(now, true)) return timeOfDay(at);
  return `${dayOf(at, partsOf(at).year !== partsOf(now).year)}, ${timeOfDay(at)}`;
}

export function wholeTime(at) {
  return `${partsOf(at).weekday}, ${dayOf(at, true)}, ${timeOfDay(at, true)}`;
}

/** `data-with="seconds"` asks for the exact time. */
export function localizeTime(time) {
  const at = time.dateTime;
  time.textContent = time.dataset.with === "seconds" ? `${dayOf(at)}, ${timeOfDay(at, true)}` : shortTime(at);
  time.title = wholeTime(at);
}

export function bytes(size) {
  if (size === null || size === undefined) return "";
  if (size < 1000) return `${size} B`;
  if (size < 1e6) return `${(size / 1e3).toFixed(size < 1e4 ? 1 : 0)} kB`;
  return `${(size / 1e6).toFixed(1)} MB`;
}
