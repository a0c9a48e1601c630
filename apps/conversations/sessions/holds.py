"""Legal holds: what they cover is deleted by nobody, neither its owner, nor retention, nor the end of an account."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q

from apps.accounts.models import User
from apps.conversations.sessions.models import LegalHold
from apps.record.errors import Kind, Refusal
from apps.record.models import Context


class UnderLegalHold(Refusal):
    """This is kept because of a legal hold, and cannot be deleted now. Ask an operator of this installation."""

    kind = Kind.CONFLICT


def held() -> Exists:
    """A condition on contexts: does a hold cover them?"""
    covers = Q(context=OuterRef("pk")) | Q(user=OuterRef("owner")) | Q(workspace=OuterRef("workspace"))
    return Exists(LegalHold.objects.filter(covers))


def check_session(context: Context) -> None:
    """Raises UnderLegalHold."""
    if Context.objects.filter(held(), pk=context.pk).exists():
        raise UnderLegalHold


def check_person(person: User) -> None:
    """May the account be erased? A hold on one of its sessions keeps who wrote it, too. Raises UnderLegalHold."""
    theirs = Q(user=person) | Q(workspace__personal_of=person) | Q(context__owner=person)
    if LegalHold.objects.filter(theirs).exists():
        raise UnderLegalHold
