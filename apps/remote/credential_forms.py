"""Credentials of a remote agent as pages show and take them: what is wanted and what was given, never what it is."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.core.exceptions import ValidationError
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.remote import credentials
from apps.remote.authenticating.choosing import Choice
from apps.remote.authenticating.fields import FIELDS, Field
from apps.remote.authenticating.origins import is_plain
from apps.remote.authenticating.schemes import Scheme
from apps.remote.models import RemoteCredential

NOT_WANTED = "The agent's card does not ask for this any more."


@dataclass(frozen=True)
class Problems:
    """What is wrong with what was filled in for a scheme of somebody's: sentences by field, "" for the whole."""

    scheme: str
    user: User | None
    by_field: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Shown:
    """A scheme on a page.

    Attributes:
        number: of the form on its page.
        row: what was given, without its secret.
        why_not: why that is not used.
    """

    number: int
    scheme: Scheme
    row: RemoteCredential | None
    why_not: str
    problems: Mapping[str, str]

    @property
    def is_given(self) -> bool:
        return self.row is not None and bool(self.row.kind)

    @property
    def is_personal(self) -> bool:
        return self.row is not None and self.row.is_personal

    @property
    def fields(self) -> list[tuple[Field, str]]:
        """What is to be filled in, each with what is wrong with it."""
        wanted = FIELDS[self.scheme.kind] if self.scheme.kind else ()
        return [(one, self.problems.get(one.name, "")) for one in wanted]

    @property
    def problem(self) -> str:
        return self.problems.get("", "")


@dataclass(frozen=True)
class Sheet:
    """The forms of a page for an agent: for everybody, or for what one person brings.

    Attributes:
        ways: how the agent lets one in, each as names of schemes that belong together.
        is_plain: can others read on the way what is sent to the agent?
    """

    origin: str
    shown: list[Shown]
    ways: list[str]
    is_optional: bool

    @property
    def is_plain(self) -> bool:
        return is_plain(self.origin)


def sheet(agent: Agent, user: User | None, problems: Problems | None = None) -> Sheet:
    """The page of an agent for operators, or with `user` for that person."""
    asked = credentials.wanted_by(agent)
    rows = {row.scheme: row for row in RemoteCredential.objects.filter(agent=agent, user=user).untold()}
    schemes = list(asked.schemes.values()) if user is None else credentials.personal_schemes(agent)
    known = {scheme.name for scheme in schemes}
    left = [Scheme(name, problem=NOT_WANTED) for name, row in rows.items() if name not in known and row.kind]
    choice = Choice(asked, ())
    shown = [
        Shown(
            number,
            scheme,
            row := rows.get(scheme.name),
            choice.why_not(row, scheme) if row and row.kind else "",
            problems.by_field if problems and (problems.scheme, problems.user) == (scheme.name, user) else {},
        )
        for number, scheme in enumerate([*schemes, *left], 1)
    ]
    ways = [" and ".join(scheme.name for scheme in way.schemes) for way in asked.ways]
    return Sheet(asked.origin, shown, ways, asked.is_optional)


@sensitive_variables()
def give(agent: Agent, user: User | None, filled_in: Mapping[str, str], by: User) -> Problems | None:
    """Keep what a form says; gives what is wrong with it, if anything is.

    `expires`, a date, is the last day on which it is used.
    """
    name = filled_in.get("scheme", "")
    try:
        credentials.keep(agent, user, name, filled_in, by, expires_at=_end_of(filled_in.get("expires", "")))
    except ValidationError as error:
        if hasattr(error, "error_dict"):
            return Problems(name, user, {field: " ".join(told) for field, told in error.message_dict.items()})
        return Problems(name, user, {"": " ".join(error.messages)})
    return None


def _end_of(day: str) -> datetime.datetime | None:
    """Raises ValidationError for what is no date."""
    try:
        date = datetime.date.fromisoformat(day) if day else None
        return None if date is None else timezone.make_aware(datetime.datetime.combine(date, datetime.time.max))
    except (ValueError, OverflowError):
        raise ValidationError("Give the last day as 2030-12-31, or none.") from None
