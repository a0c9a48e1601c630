"""Cron expressions as people write them: five fields, names such as `@daily`, and ranges around the end (`22-2`)."""

from __future__ import annotations

import re

NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
DAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(DAYS)} | {"7": 0}),
)
"""The least and the greatest value, and names, of minute, hour, day of month, month and day of week."""
RANGE = re.compile(r"(\w+)-(\w+)(?:/(\d{1,2}))?", re.ASCII)
SUNDAY_FIRST = re.compile(r"7-(?=[1-6])")
TAKEN = (
    "Fields take numbers, * and lists (1,15), ranges (9-17, 22-2, fri-mon), steps (*/15), names (jan, mon), "
    "L in days, and # in days of the week. Seconds, years, ? and W are not supported."
)


def plain(expression: str) -> str:
    """The expression as five fields with ranges that only rise. Raises ValueError with a sentence."""
    text = expression.strip().lower()
    if text.startswith("@"):
        if text not in NICKNAMES:
            raise ValueError(f"This name is not supported. Use one of {', '.join(NICKNAMES)}.")
        return NICKNAMES[text]
    if len(fields := text.split()) != len(FIELDS):
        sentence = "Give five fields (minute, hour, day of month, month, day of week), or a name such as @daily."
        raise ValueError(f"{sentence} Seconds and years are not supported.")
    about = zip(fields, FIELDS, strict=True)
    return " ".join(",".join(_rising(term, *limits) for term in field.split(",")) for field, limits in about)


def in_words(expression: str) -> str:
    """When it is due, such as "on Mondays at 9:00"; the expression itself if there are no short words for it.

    Raises ValueError with a sentence.
    """
    minute, hour, day, month, weekday = plain(expression).split()
    days = _days_in_words(day, weekday) if month == "*" else ""
    if re.fullmatch(r"\*/\d+", minute) and (hour, days) == ("*", "every day"):
        return f"every {minute[2:]} minutes"
    if minute.isdecimal() and (hour, days) == ("*", "every day"):
        return f"every hour at minute {int(minute)}"
    if minute.isdecimal() and re.fullmatch(r"\d+(,\d+)*", hour) and days:
        return f"{days} at {_listed([f'{int(one)}:{int(minute):02}' for one in hour.split(',')])}"
    return f"at the times {expression.strip()}"


def _days_in_words(day: str, weekday: str) -> str:
    """ "" if there are no short words."""
    if (day, weekday) == ("*", "*"):
        return "every day"
    if day.isdecimal() and weekday == "*":
        return f"on day {int(day)} of each month"
    if day == "*" and weekday in ("1-5", "mon-fri"):
        return "on weekdays"
    numbers = [FIELDS[4][2].get(one, int(one) if one.isdecimal() else len(DAY_NAMES)) for one in weekday.split(",")]
    is_known = day == "*" and all(number < len(DAY_NAMES) for number in numbers)
    return f"on {_listed([f'{DAY_NAMES[number]}s' for number in numbers])}" if is_known else ""


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _rising(term: str, least: int, greatest: int, names: dict[str, int]) -> str:
    """A range around the end as a list. Everything else stays, also what is wrong."""
    term = SUNDAY_FIRST.sub("0-", term) if names.get("7") == 0 else term
    if not (found := RANGE.fullmatch(term)):
        return term
    first, last = [names.get(word, int(word) if word.isdecimal() else -1) for word in found.group(1, 2)]
    step = int(found[3] or 1)
    if not least <= last < first <= greatest or not step:
        return term
    return ",".join(map(str, [*range(first, greatest + 1), *range(least, last + 1)][::step]))
