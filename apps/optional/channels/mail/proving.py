"""Who sent a letter, as the receiving mail server found (RFC 8601, RFC 7489).

Whoever writes a letter writes its headers, names and comments, too. So headers are read as they came, nothing within
quotes or parentheses counts, and what can be read in two ways proves nothing.
"""

from __future__ import annotations

import re
from email.message import EmailMessage

LONGEST_ADDRESS = 200
_WORD = r"[^\s<>()@,;:\\\"\[\]]+"
FROM = re.compile(rf"[^<>@,;:]*<\s*({_WORD}@{_WORD})\s*>|({_WORD}@{_WORD})", re.ASCII)
AROUND_SIGNS = re.compile(r"\s*([=/])\s*")
PASSED = re.compile(r"dmarc(/1)?=pass", re.IGNORECASE)


def proven_sender(letter: EmailMessage, checked_by: str) -> str:
    """The address in From, in small letters; "" unless `checked_by` found by DMARC that its domain sent the letter.

    `checked_by`: whose `Authentication-Results` count. Its own is the first.
    """
    sender = _sender(_raw(letter, "from"))
    results = _raw(letter, "authentication-results")
    bare = _bare(results[0]) if results else None
    if not sender or bare is None:
        return ""
    head, *found = (AROUND_SIGNS.sub(r"\1", one).split() for one in bare.split(";"))
    if not head or head[0].lower() != checked_by.lower():
        return ""
    verdicts = [words for words in found if words and words[0].lower().startswith("dmarc")]
    if len(verdicts) != 1 or not PASSED.fullmatch(verdicts[0][0]):
        return ""
    domains = [word.partition("=")[2] for word in verdicts[0] if word.lower().startswith("header.from=")]
    named = {one.rpartition("@")[2].lower().rstrip(".") for one in domains}
    return sender if named == {sender.rpartition("@")[2]} else ""


def _raw(letter: EmailMessage, name: str) -> list[str]:
    """All values of a header, with encoded words as they came."""
    return [str(value) for key, value in letter.raw_items() if key.lower() == name]


def _sender(headers: list[str]) -> str:
    """The one address of the one header; "" otherwise."""
    bare = _bare(headers[0]) if len(headers) == 1 else None
    found = FROM.fullmatch(bare.strip()) if bare is not None and bare.isascii() else None
    address = (found[1] or found[2]).lower() if found else ""
    return address if len(address) <= LONGEST_ADDRESS else ""


def _bare(value: str) -> str | None:
    """A header's value without its comments, which may be nested, and quoted strings; None if one has no end."""
    kept, depth, is_quoted, is_escaped = list[str](), 0, False, False
    for sign in value:
        if is_escaped:
            is_escaped = False
        elif sign == "\\" and (is_quoted or depth):
            is_escaped = True
        elif sign == '"' and not depth:
            is_quoted = not is_quoted
            kept.append(" ")
        elif is_quoted:
            continue
        elif sign == "(":
            depth += 1
            kept.append(" ")
        elif sign == ")" and depth:
            depth -= 1
        elif not depth:
            kept.append(sign)
    return None if depth or is_quoted else "".join(kept)
