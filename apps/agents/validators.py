"""Validators of what operators write for cards."""

from __future__ import annotations

from typing import Any

import rfc8785
from django.core.exceptions import ValidationError

SKILL_TEXTS = ("id", "name", "description")
SKILL_LISTS = ("examples", "inputModes", "outputModes")
EXTENDED_TEXTS = ("description", "documentationUrl")


def is_skill(value: Any) -> bool:
    """Whether it is a skill (A2A 1.0 §4.4.5)."""
    if not isinstance(value, dict) or not all(isinstance(value.get(key), str) and value[key] for key in SKILL_TEXTS):
        return False
    lists = [value.get("tags"), *(value[name] for name in SKILL_LISTS if name in value)]
    return bool(lists[0]) and all(isinstance(one, list) and all(isinstance(text, str) for text in one) for one in lists)


def check_skills(value: Any) -> None:
    """Raises ValidationError."""
    if not isinstance(value, list) or not all(map(is_skill, value)):
        raise ValidationError(
            'Write a list of skills, each with "id", "name", "description" and a list of "tags"; '
            '"examples", "inputModes" and "outputModes" are lists of texts.'
        )


def check_extended_card(value: Any) -> None:
    """Raises ValidationError for fields that an extended card cannot add."""
    texts = value if isinstance(value, dict) else {"": value}
    skills = texts.get("skills", [])
    if (
        texts.keys() - {*EXTENDED_TEXTS, "skills"}
        or not all(isinstance(texts.get(name, "-"), str) and texts.get(name, "-") for name in EXTENDED_TEXTS)
        or not isinstance(skills, list)
        or not all(map(is_skill, skills))
    ):
        raise ValidationError(
            'Write an object with "skills" (a list, each with "id", "name", "description" and a list of "tags"), '
            '"description" or "documentationUrl".'
        )
    check_numbers(value)


def check_capabilities(value: Any) -> None:
    """Raises ValidationError (A2A 1.0 §4.4.3)."""
    if not isinstance(value, dict):
        raise ValidationError('Write an object, such as {"streaming": true}.')
    extensions = value.get("extensions", [])
    if not isinstance(extensions, list) or not all(isinstance(one, dict) and one.get("uri") for one in extensions):
        raise ValidationError('Write "extensions" as a list of objects, each with a "uri".')
    check_numbers(value)


def check_numbers(value: Any) -> None:
    """Raises ValidationError for numbers without a canonical form (RFC 8785): a card with them cannot be signed."""
    try:
        rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as error:
        raise ValidationError("Write no integers beyond 2^53: the card could not be signed.") from error


def check_names(value: Any) -> None:
    """Raises ValidationError."""
    if not isinstance(value, list) or not all(isinstance(word, str) and word for word in value):
        raise ValidationError('Write a list of names, such as ["search"].')
