"""The forms for a remote agent's credentials. They never show a secret."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.core.exceptions import ValidationError
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.remote.agent_cards.cards import is_unencrypted
from apps.remote.authentication import credentials
from apps.remote.authentication.credentials import FIELDS, CredentialChoice, Field
from apps.remote.authentication.security_schemes import Scheme
from apps.remote.models import RemoteCredential

NOT_REQUIRED = "The agent's card does not ask for this any more."


@dataclass(frozen=True)
class FormProblems:
    scheme: str
    user: User | None
    by_field: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SchemeForm:
    """The form for one scheme.

    Attributes:
        number: unique on the page.
        row: the credential, without its secret.
        why_not: why the credential is not used; "" if it is.
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
        fields = FIELDS[self.scheme.kind] if self.scheme.kind else ()
        return [(one, self.problems.get(one.name, "")) for one in fields]

    @property
    def problem(self) -> str:
        return self.problems.get("", "")


@dataclass(frozen=True)
class CredentialForms:
    """The forms for the shared credentials of an agent, or for one person's.

    `ways` are the alternatives by which the agent accepts callers, as names of schemes.
    """

    origin: str
    shown: list[SchemeForm]
    ways: list[str]
    is_optional: bool

    @property
    def is_plain(self) -> bool:
        return is_unencrypted(self.origin)


def forms_for(agent: Agent, user: User | None, problems: FormProblems | None = None) -> CredentialForms:
    requirements = credentials.requirements_of(agent)
    rows = {row.scheme: row for row in RemoteCredential.objects.filter(agent=agent, user=user).untold()}
    schemes = list(requirements.schemes.values()) if user is None else credentials.personal_schemes(agent)
    required = {scheme.name for scheme in schemes}
    left = [Scheme(name, problem=NOT_REQUIRED) for name, row in rows.items() if name not in required and row.kind]
    choice = CredentialChoice(requirements, ())
    shown = [
        SchemeForm(
            number,
            scheme,
            row := rows.get(scheme.name),
            choice.why_not(row, scheme) if row and row.kind else "",
            problems.by_field if problems and (problems.scheme, problems.user) == (scheme.name, user) else {},
        )
        for number, scheme in enumerate([*schemes, *left], 1)
    ]
    ways = [" and ".join(scheme.name for scheme in one.schemes) for one in requirements.alternatives]
    return CredentialForms(requirements.origin, shown, ways, requirements.is_optional)


@sensitive_variables()
def save_form(agent: Agent, user: User | None, filled_in: Mapping[str, str], by: User) -> FormProblems | None:
    """Store a form's credential; gives its problems, if any.

    The field `expires` is the last day on which the credential is used.
    """
    name = filled_in.get("scheme", "")
    try:
        credentials.save(agent, user, name, filled_in, by, expires_at=_end_of_day(filled_in.get("expires", "")))
    except ValidationError as error:
        if hasattr(error, "error_dict"):
            return FormProblems(name, user, {field: " ".join(told) for field, told in error.message_dict.items()})
        return FormProblems(name, user, {"": " ".join(error.messages)})
    return None


def _end_of_day(day: str) -> datetime.datetime | None:
    """Raises ValidationError for an invalid date."""
    try:
        date = datetime.date.fromisoformat(day) if day else None
        return None if date is None else timezone.make_aware(datetime.datetime.combine(date, datetime.time.max))
    except (ValueError, OverflowError):
        raise ValidationError("Give the last day as 2030-12-31, or none.") from None
