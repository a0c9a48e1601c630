"""Finds words, patterns and personal data in texts, whole or in pieces, in bounded time.

Patterns run in `regex`, which ends a search after a time, and says where a text that goes on could still match.
"""

from __future__ import annotations

import ipaddress
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import phonenumbers
import regex
from stdnum import iban, luhn

from apps.record.content.decisions import WORDS

SECONDS = 5.0  # for all texts of a check
PIECE_SECONDS = 1.0  # for a piece of a text
MAX_TEXT = 1_000_000  # characters of a check
MAX_HELD = 8_192  # characters of a streamed text that wait for what comes
CONTEXT = 200  # characters before, that a pattern may look back to
AHEAD = 3  # characters after a match that a pattern may look at
MOST_PATTERNS = 200
MAX_PATTERN = 500  # characters

Fit = Callable[[str], Sequence[tuple[int, int]]]
"""Of a candidate, the stretches that are what is looked for."""


class TooSlow(Exception):
    """The text was not searched in time, or not in the memory that there is."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern for one category. `fit`: what of a match counts; by default all of it."""

    category: str
    label: str
    pattern: regex.Pattern[str]
    fit: Fit | None = None


@dataclass(frozen=True, slots=True)
class Span:
    start: int
    end: int
    rule: Rule


def find(text: str, rules: Iterable[Rule], seconds: float = SECONDS, start: int = 0) -> list[Span]:
    """What the rules find, in order, without overlaps: the earlier rule counts. Raises TooSlow."""
    deadline = time.monotonic() + seconds
    found: list[Span] = []
    for rule in rules:
        found += [one for one in _matches(text, rule, deadline, start) if not _overlaps(one, found)]
    return sorted(found, key=lambda one: one.start)


def _overlaps(one: Span, others: Sequence[Span]) -> bool:
    return any(one.start < other.end and other.start < one.end for other in others)


def _matches(text: str, rule: Rule, deadline: float, start: int) -> Iterator[Span]:
    left = _left(deadline)
    try:
        for match in rule.pattern.finditer(text, pos=start, timeout=left, concurrent=True):
            first, last = match.span()
            for begin, end in [(0, last - first)] if rule.fit is None else rule.fit(match[0]):
                if end > begin:
                    yield Span(first + begin, first + end, rule)
            _left(deadline)
    except (TimeoutError, MemoryError):
        raise TooSlow from None


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TooSlow
    return left


def hidden(text: str, spans: Sequence[Span], start: int = 0) -> str:
    """The text from `start`, with labels in place of what was found."""
    pieces, at = [], start
    for one in spans:
        pieces += [text[at : one.start], f"[{one.rule.label}]"]
        at = one.end
    return "".join([*pieces, text[at:]])


def counts_of(spans: Iterable[Span]) -> Counter[str]:
    return Counter(one.rule.category for one in spans)


class Pieces:
    """A text that comes in pieces: what rules may still match at its end waits, at most MAX_HELD characters.

    Attributes:
        counts: of what was found so far, by category.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.counts: Counter[str] = Counter()
        self._rules = rules
        self._text = ""
        self._start = 0  # before it is what passed already, that patterns may look back to

    def feed(self, text: str) -> str:
        """What may pass now, with what was found hidden. Raises TooSlow."""
        self._text += text
        return self._pass(None)

    def end(self) -> str:
        """The rest. Raises TooSlow."""
        return self._pass(len(self._text))

    def given_up(self) -> str:
        """What waits, unsearched."""
        rest, self._text, self._start = self._text[self._start :], "", 0
        return rest

    def _pass(self, until: int | None) -> str:
        spans = find(self._text, self._rules, PIECE_SECONDS, self._start)
        if until is None:
            until = held_from(self._text, self._rules, self._start)
            for one in reversed(spans):
                until = one.start if one.start < until < one.end else until
        passing = [one for one in spans if one.end <= until]
        self.counts += counts_of(passing)
        passed = hidden(self._text[:until], passing, self._start)
        kept = max(0, until - CONTEXT)
        self._text, self._start = self._text[kept:], until - kept
        return passed


def held_from(text: str, rules: Iterable[Rule], start: int) -> int:
    """Where something begins that may go on after the text's end; the text's length if nothing does. Raises TooSlow."""
    deadline = time.monotonic() + PIECE_SECONDS
    return max(min((_open_at(text, one, start, deadline) for one in rules), default=len(text)), len(text) - MAX_HELD)


def _open_at(text: str, rule: Rule, start: int, deadline: float) -> int:
    at = start
    while at < len(text):
        try:
            match = rule.pattern.search(text, pos=at, partial=True, timeout=_left(deadline), concurrent=True)
        except (TimeoutError, MemoryError):
            raise TooSlow from None
        if match is None:
            return len(text)
        if match.partial or match.end() > len(text) - AHEAD or _may_grow(text, rule, match.start(), deadline):
            return max(int(match.start()), start)
        at = max(int(match.end()), at + 1)
    return len(text)


def _may_grow(text: str, rule: Rule, start: int, deadline: float) -> bool:
    """Could the rest of the text be the beginning of a longer match?"""
    try:
        longer = rule.pattern.fullmatch(text, pos=start, partial=True, timeout=_left(deadline), concurrent=True)
    except (TimeoutError, MemoryError):
        raise TooSlow from None
    return longer is not None and longer.partial


# Personal data and secrets

CATEGORIES = {name: WORDS[name] for name in ("email", "phone", "card", "iban", "ip", "secret")}
"""Kinds of personal data, in the singular and the plural."""

EMAIL = r"(?<![\w.+-])[\w.+'-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}"
PHONE = r"(?<![\w.+])(?:\+|\(\+?)?\d(?:[ ().\-/\u00a0]{0,3}\d){5,17}(?![\w@])"
CARD = r"(?<!\d)\d(?:[ -]?\d){12,30}(?!\d)"
IBAN = r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?: ?[A-Za-z0-9]){11,30}"
IP = r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4})(?![\w:]|\.\d)"
KEY = (
    r"(?<![\w-])(?:sk-[\w-]{20,200}|[sr]k_(?:live|test)_\w{16,200}|gh[pousr]_\w{30,255}|github_pat_\w{22,255}"
    r"|glpat-[\w-]{20,100}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{35}|xox[abeoprs]-[\w-]{10,250}|hf_\w{30,100}"
    r"|parley_\w{8,40}_[\w-]{20,100}|eyJ[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.[\w-]{10,2000})(?![\w-])"
)
PRIVATE_KEY = (
    r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY-----[A-Za-z0-9+/=:,\-\s]{0,7000}?"
    r"-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY-----"
)
ASSIGNED = r"(?i)(?<=(?:api[_-]?key|secret|token|password|passwd)[\"']? ?[:=] ?[\"']?)[^\s\"',;]{8,200}"


def _digits(text: str) -> str:
    return "".join(one for one in text if one.isdigit())


def _cards(candidate: str) -> list[tuple[int, int]]:
    """Stretches of whole groups of digits that are card numbers."""
    if (13 <= len(_digits(candidate)) <= 19) and luhn.is_valid(_digits(candidate)):
        return [(0, len(candidate))]
    groups = [match.span() for match in regex.finditer(r"\d+", candidate)]
    for first, (begin, _) in enumerate(groups):
        for _, end in groups[first:]:
            number = _digits(candidate[begin:end])
            if len(number) > 19:
                break
            if len(number) >= 13 and luhn.is_valid(number):
                return [(begin, end)]
    return []


def _ibans(candidate: str) -> list[tuple[int, int]]:
    """The longest beginning with the right check digits: what follows may be a word."""
    ends = range(len(candidate), 14, -1)
    return next(([(0, end)] for end in ends if candidate[end - 1] != " " and iban.is_valid(candidate[:end])), [])


def _ips(candidate: str) -> list[tuple[int, int]]:
    try:
        ipaddress.ip_address(candidate)
    except ValueError:
        return []
    return [(0, len(candidate))] if any(one.isalnum() for one in candidate) else []


DATE = regex.compile(r"(?:\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./]\d{2,4})(?:\D.*)?")


def _phones(region: str) -> Fit:
    def fit(candidate: str) -> list[tuple[int, int]]:
        if DATE.fullmatch(candidate):
            return []
        number = f"+{candidate[2:]}" if candidate.startswith("00") else candidate
        try:
            parsed = phonenumbers.parse(number, region or None)
        except phonenumbers.NumberParseException:
            return []
        return [(0, len(candidate))] if phonenumbers.is_valid_number(parsed) else []

    return fit


@lru_cache(64)
def personal_rules(categories: tuple[str, ...], region: str = "") -> tuple[Rule, ...]:
    """The rules for kinds of personal data, the most exact first."""
    found: dict[str, list[tuple[str, Fit | None]]] = {
        "secret": [(PRIVATE_KEY, None), (KEY, None), (ASSIGNED, None)],
        "email": [(EMAIL, None)],
        "iban": [(IBAN, _ibans)],
        "card": [(CARD, _cards)],
        "ip": [(IP, _ips)],
        "phone": [(PHONE, _phones(region))],
    }
    return tuple(
        Rule(name, CATEGORIES[name][0], regex.compile(pattern), fit)
        for name, patterns in found.items()
        if name in categories
        for pattern, fit in patterns
    )


def region_is_known(region: str) -> bool:
    return region in phonenumbers.SUPPORTED_REGIONS


# Words and patterns


@lru_cache(256)
def own_rules(words: str, patterns: str, label: str = "") -> tuple[Rule, ...]:
    """The rules of somebody's words and patterns, each on a line."""
    label = label or "hidden"
    found = []
    if listed := lines_of(words):
        longest_first = sorted(set(listed), key=len, reverse=True)
        either = "|".join(map(regex.escape, longest_first))
        found.append(Rule("word", label, regex.compile(rf"(?<!\w)(?:{either})(?!\w)", regex.IGNORECASE)))
    return (*found, *(Rule("pattern", label, regex.compile(one)) for one in lines_of(patterns)))


@lru_cache(256)
def may_stream(words: str, patterns: str) -> bool:
    """Does a text in pieces give the same as the whole?

    Not with somebody's own patterns, of which nobody knows how a match may begin, and not if a word is in a phrase
    that begins before it.
    """
    listed = {one.casefold() for one in lines_of(words)}
    return not lines_of(patterns) and not any(_has_other(one, listed) for one in listed)


def _has_other(phrase: str, listed: Collection[str]) -> bool:
    lengths = {len(one) for one in listed if len(one) < len(phrase)}
    starts = [match.start() for match in regex.finditer(r"(?<!\w)\S", phrase, pos=1)]
    return any(phrase[start : start + length] in listed for start in starts for length in lengths)


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


RECURSION = regex.compile(r"\(\?(?:R\)|[+-]?\d+\)|&|P>)")
"""A pattern that calls a group: `regex` gives it memory without a limit, however little time it has."""


def check_patterns(text: str) -> str:
    """What is wrong with somebody's patterns, in a sentence that says what to do; "" if nothing is."""
    patterns = lines_of(text)
    if len(patterns) > MOST_PATTERNS:
        return f"Write at most {MOST_PATTERNS} patterns."
    for number, one in enumerate(patterns, 1):
        if len(one) > MAX_PATTERN:
            return f"Line {number} is longer than {MAX_PATTERN} characters. Make several patterns of it."
        if RECURSION.search(one):
            return f"Line {number} calls a part of itself, which takes too much memory. Write it without such a call."
        try:
            compiled = regex.compile(one)
            if compiled.search("", timeout=PIECE_SECONDS) is not None:
                return f"Line {number} matches nothing at all. Let it match at least one character."
        except (regex.error, OverflowError, RecursionError, TimeoutError, MemoryError) as error:
            return f"Line {number} is no regular expression: {error}."
    return ""
