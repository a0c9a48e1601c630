"""Decisions of guardrails in words, from the payloads of their events."""

from __future__ import annotations

from apps.record.events import JSON

WORDS = {
    "email": ("e-mail address", "e-mail addresses"),
    "phone": ("phone number", "phone numbers"),
    "card": ("card number", "card numbers"),
    "iban": ("bank account", "bank accounts"),
    "ip": ("IP address", "IP addresses"),
    "secret": ("secret", "secrets"),
    "word": ("word", "words"),
    "pattern": ("match", "matches"),
    "characters": ("character", "characters"),
    "files": ("file", "files"),
    "bytes": ("byte", "bytes"),
}
"""What guardrails find, by category: in the singular and the plural."""
DONE = {
    ("in", "block"): "The message was not sent to the agent",
    ("in", "redact"): "{what} hidden from the agent",
    ("in", "ask"): "Asked before the message was sent",
    ("out", "block"): "The answer was not shown",
    ("out", "redact"): "{what} hidden in the answer",
    ("out", "ask"): "Asked before the answer was shown",
}
ANSWERED = {
    "send": "The message was sent as it is",
    "redact": "It passed with what was found hidden",
    "show": "The answer was shown as it is",
    "stop": "It was stopped",
}


def in_words(category: str, count: int) -> str:
    """Such as “2 e-mail addresses”; "" for what has no number, such as a yes to a question."""
    if category not in WORDS:
        return ""
    one, many = WORDS[category]
    return f"{count:,} {one if count == 1 else many}"


def found_in(decision: JSON) -> str:
    """All that was found."""
    return ", ".join(words for name, count in decision["counts"].items() if (words := in_words(name, count)))


def line_of(decision: JSON) -> str:
    """Such as “2 e-mail addresses were hidden from the agent · Personal data · 3 ms”."""
    return " · ".join([_said(decision), decision["name"], f"{decision['ms']:,} ms"])


def _said(decision: JSON) -> str:
    found, count, answer = found_in(decision), sum(decision["counts"].values()), decision.get("answer")
    if answer is not None:
        return ANSWERED.get(answer, "It was decided")
    if decision.get("failed"):
        return "Not checked, and passed" if decision.get("passed") else "Not checked, so it was stopped"
    if decision.get("watched"):
        return f"Noted: {found}" if found else "Noted"
    words = DONE[decision["direction"], decision["action"]]
    if decision["action"] == "redact":
        return words.format(what=f"{found} {'was' if count == 1 else 'were'}")
    return f"{words}: {found}" if found else words
