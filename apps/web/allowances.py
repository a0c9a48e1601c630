"""Allowing a private address where it is needed: in the form of what is there, and stored together with it."""

from __future__ import annotations

from typing import cast

from django.contrib import admin
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest

from apps.accounts.models import User
from apps.installation.models import NetworkAllowance, check_entry

PERMISSION = "installation.add_networkallowance"
ALLOW_BELOW = "This address is in a private network. Allow calls to it below, and go on."
ASK_AN_OPERATOR = (
    "This address is in a private network. Ask an operator of this installation to add this, or to allow it."
)


def may_allow(person: User) -> bool:
    return person.may_operate(PERMISSION)


def is_entry(text: str) -> bool:
    """May it be allowed at all? Addresses of cloud metadata may not."""
    try:
        check_entry(text)
    except ValidationError:
        return False
    return True


def allow(request: HttpRequest, entry: str, reason: str) -> None:
    """Allow a host and port, as admin would. Call it in the transaction of what needs it.

    What is allowed until a time stays so; what is not allowed now is, without expiry. Raises PermissionDenied.
    """
    person = cast("User", request.user)
    if not may_allow(person):
        raise PermissionDenied
    if (known := NetworkAllowance.objects.filter(entry=entry).first()) and known.is_active:
        return
    fields = {"reason": reason[:200], "added_by": person, "expires_at": None}
    row, _ = NetworkAllowance.objects.update_or_create(entry=entry, defaults=fields)
    admin.site.get_model_admin(NetworkAllowance).log_addition(request, row, reason)
