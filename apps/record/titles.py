"""A conversation's first title, from its first message."""

from typing import Any

LENGTH = 60


def title_of(message: dict[str, Any]) -> str:
    """The beginning of the message's text, cut at a word; the name of its first file where it has no text."""
    texts = (" ".join(part["text"].split()) for part in message["parts"] if "text" in part)
    if text := next(filter(None, texts), ""):
        return text if len(text) <= LENGTH else text[:LENGTH].rsplit(" ", 1)[0][:LENGTH] + "…"
    return next((part["filename"][:LENGTH] for part in message["parts"] if part.get("filename")), "")
