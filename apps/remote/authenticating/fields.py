"""What a person fills in for each kind of credential, and what of it is one."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from django.core.exceptions import ValidationError
from django.views.decorators.debug import sensitive_variables

from apps.remote.authenticating.schemes import Kind, Scheme

LONGEST = 10_000  # characters
ASCII = re.compile(r"[\x20-\x7e]+")
TOKEN = re.compile(r"[\x21-\x7e]+")
COOKIE = re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+")  # RFC 6265 §4.1.1


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    label: str
    is_secret: bool = True


FIELDS: dict[Kind, tuple[Field, ...]] = {
    Kind.API_KEY: (Field("key", "API key"),),
    Kind.BEARER: (Field("token", "Access token"),),
    Kind.BASIC: (Field("username", "User name", is_secret=False), Field("password", "Password")),
    Kind.CLIENT_CREDENTIALS: (
        Field("client_id", "Client ID", is_secret=False),
        Field("client_secret", "Client secret"),
    ),
}
PLACES = {"header": ASCII, "cookie": COOKIE}


@sensitive_variables()
def cleaned(scheme: Scheme, filled_in: Mapping[str, str]) -> dict[str, str]:
    """The fields of a credential, from those of a form. Raises ValidationError by field; it repeats no value."""
    values, problems = {}, {}
    for field in FIELDS[scheme.kind] if scheme.kind else ():
        given = filled_in.get(field.name, "")
        value = given if field.name == "password" else given.strip()  # what copying brings along
        if field.name == "token":
            value = re.sub(r"^bearer\s+", "", value, flags=re.IGNORECASE)
        values[field.name] = value
        if problem := _problem(scheme, field, value):
            problems[field.name] = problem
    if problems:
        raise ValidationError(problems)
    return values


def as_text(values: Mapping[str, str]) -> str:
    """The fields as they are kept, see `RemoteCredential.values`."""
    return json.dumps(values)


def _problem(scheme: Scheme, field: Field, value: str) -> str:
    if not value:
        return f"Fill in the {field.label}."
    if len(value) > LONGEST or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in value):
        return f"This has line breaks or the like in it, or more than {LONGEST:,} characters. Copy it again."
    if field.name == "username" and ":" in value:
        return "A user name has no colon in it."
    fits = TOKEN if scheme.kind is Kind.BEARER else PLACES.get(scheme.place)
    if fits is not None and not fits.fullmatch(value):
        return "This has characters in it that cannot be sent to the agent. Copy it again."
    return ""
