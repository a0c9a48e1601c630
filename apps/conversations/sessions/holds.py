"""Legal holds: what they cover is deleted by nobody, neither its owner, nor retention, nor the end of an account."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q

from apps.accounts.people.erasure import Person
from apps.conversations.sessions.models import LegalHold
from apps.record.errors import Kind, Refusal
from apps.record.models import Context
from parley.db.sql import Keys


class UnderLegalHold(Refusal):
    """This is kept because of a legal hold, and cannot be deleted now. Ask an operator of this installation."""

    kind = Kind.CONFLICT


def held() -> Exists:
    """A condition on contexts: does a hold cover them?"""
    covers = Q(context=OuterRef("pk")) | Q(user=OuterRef("owner")) | Q(workspace=OuterRef("workspace"))
    return Exists(LegalHold.objects.filter(covers))


def check_sessions(contexts: Keys) -> None:
    """Raises UnderLegalHold if a hold covers any of them."""
    if Context.objects.filter(held(), pk__in=contexts).exists():
        raise UnderLegalHold


def check_person(person: Person) -> None:
    """May the account be erased? A hold on one of its sessions keeps who wrote it, too. Raises UnderLegalHold."""
    theirs = Q(user=person.row) | Q(workspace__in=person.workspaces) | Q(context__owner=person.row)
    if LegalHold.objects.filter(theirs).exists():
        raise UnderLegalHold
