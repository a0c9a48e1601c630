"""What somebody types to find something: `words`, `"phrases"`, `-not` and `begin*`, in any mixture.

There is no input that is an error but a very long one: what cannot be a word is left out, a quotation mark that is not
closed holds to the end. Words are all that goes to a database, in its own language of queries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from apps.features.search.words import is_unspaced, words
from apps.record.errors import InvalidParams

LONGEST = 500  # characters of a query

TERM = re.compile(r'(?P<no>-?)(?:"(?P<phrase>[^"]*)(?:"|$)|(?P<bare>[^\s"]+))(?P<rest>\*?)')


@dataclass(frozen=True, slots=True)
class Clause:
    """Words in a row; with `is_prefix` the last one is the beginning of a word."""

    words: tuple[str, ...]
    is_prefix: bool = False

    def for_postgresql(self) -> str:
        """As a tsquery, in its textual form."""
        quoted = [f"'{word}'" for word in self.words]
        return f"({' <-> '.join(quoted)}{':*' if self.is_prefix else ''})"

    def for_sqlite(self) -> str:
        """As an expression of FTS5."""
        return f'"{" ".join(self.words)}"{" *" if self.is_prefix else ""}'


@dataclass(frozen=True, slots=True)
class Query:
    """All `wanted` clauses are to be found, and none of the `unwanted`."""

    wanted: tuple[Clause, ...]
    unwanted: tuple[Clause, ...]

    def __bool__(self) -> bool:
        return bool(self.wanted)

    def for_postgresql(self) -> str:
        found = [clause.for_postgresql() for clause in self.wanted]
        return " & ".join([*found, *(f"!{clause.for_postgresql()}" for clause in self.unwanted)])

    def for_sqlite(self) -> str:
        found = f"({' AND '.join(clause.for_sqlite() for clause in self.wanted)})"
        without = " OR ".join(clause.for_sqlite() for clause in self.unwanted)
        return f"({found} NOT ({without}))" if without else found


def read(text: str) -> Query:
    """What the text asks for; false where that is no word at all. Raises InvalidParams for a text that is too long."""
    if len(text) > LONGEST:
        raise InvalidParams(f"Look for something shorter: at most {LONGEST} characters.", "q")
    wanted: list[Clause] = []
    unwanted: list[Clause] = []
    for term in TERM.finditer(text):
        bare = term["bare"] or ""
        clause = _clause(term["phrase"] or bare, is_prefix=bool(term["rest"]) or bare.endswith("*"))
        if clause:
            (unwanted if term["no"] else wanted).append(clause)
    return Query(tuple(dict.fromkeys(wanted)), tuple(dict.fromkeys(unwanted)))


def _clause(text: str, *, is_prefix: bool) -> Clause | None:
    found = [word.text for word in words(text)]
    if not found:
        return None
    if len(found[-1]) == 1 and is_unspaced(found[-1]):
        # The last character of such a text is a word of its own, which need not be the last where it is found.
        if len(found) > 1 and found[-2].endswith(found[-1]):
            return Clause(tuple(found[:-1]), is_prefix=False)
        return Clause(tuple(found), is_prefix=True)
    return Clause(tuple(found), is_prefix)
