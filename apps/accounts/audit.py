"""The book of what was done to people's data: who, when, to what, and how much; never any content."""

from __future__ import annotations

from collections.abc import Mapping

from apps.accounts.models import AuditLine
from apps.accounts.principals import Principal

Act = AuditLine.Act


def write(act: Act, subject: object, actor: Principal | str, counts: Mapping[str, int] | None = None) -> None:
    """Write a line, in the transaction of what it tells of. `actor` is a caller, or the name of a rule or program."""
    name = actor if isinstance(actor, str) else actor.sender or "anonymous"
    AuditLine.objects.create(act=act, subject=str(subject), actor=name, counts=dict(counts or {}))
