"""Invitations, and signing up with an address of an allowed domain, which is an invitation that nobody made.

`accepted` tells other parts who came in, in the same transaction: an invitation may name a workspace and a role.
"""

from __future__ import annotations

import datetime
import hashlib
import secrets

from django.conf import settings
from django.db import IntegrityError
from django.dispatch import Signal
from django.urls import reverse
from django.utils import timezone

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import Invitation, User, Workspace
from apps.accounts.people import links, mail
from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, Resource
from parley.db.sql import write_transaction

MOST_OPEN = 200  # invitations of one person

accepted = Signal()
"""Arguments: `invitation`, `person`. Sent before the transaction commits."""


class Refused(Exception):
    """The message says why."""


def may_invite(person: User) -> bool:
    """Into the installation: operators who may add people."""
    return person.may_operate("accounts.add_user")


def invite(
    inviter: User, email: str = "", workspace: Workspace | None = None, role: str = ""
) -> tuple[Invitation, str]:
    """Make an invitation, and send it if it has an address; returns it with its link, which is not stored.

    The caller checks that `inviter` may invite. Raises Refused.
    """
    if not email and settings.OIDC_URL:  # it gives accounts to whoever has their address
        raise Refused("Enter the person's e-mail address: nobody may claim that of somebody else.")
    if Invitation.objects.visible_to(inviter.principal).open().count() >= MOST_OPEN:
        raise Refused(f"You have {MOST_OPEN} open invitations. Withdraw some first.")
    with write_transaction():
        invitation, link = _make(
            links.INVITATION_LIFETIME, email=email, inviter=inviter, workspace=workspace, role=role
        )
        details = {"workspace": str(workspace), "role": role} if workspace else {}
        audit.record(AuditAction.INVITED, actor=inviter, object=invitation, details=details)
    if email and mail.can_send():
        who = {"inviter": _on_one_line(inviter.short_name), "workspace": _on_one_line(str(workspace or ""))}
        mail.send_later("invitation", email, link=link, days=links.INVITATION_LIFETIME.days, **who)
    return invitation, link


def _on_one_line(name: str) -> str:
    """So that a name adds no paragraph to the letter."""
    return " ".join(name.split())


def _withdraw(invitation: Invitation, principal: Principal) -> Invitation:
    """Raises NotFound for one that is no longer open."""
    with write_transaction():
        found = Invitation.objects.open().select_for_update().find(principal, invitation.pk)
        found.revoked_at = timezone.now()
        found.save(update_fields=["revoked_at"])
        audit.record(AuditAction.INVITATION_WITHDRAWN, actor=principal, object=found)
    return found


WITHDRAW = Act[Invitation](
    "withdraw",
    "Withdraw",
    _withdraw,
    "Withdraw an invitation",
    "Its link no longer works.",
    lambda _: "The invitation is withdrawn. Its link no longer works.",
    lambda invitation: invitation.state == "Open",
    permission=Permission.READ,
    is_grave=True,
)
INVITATIONS = Resource("invitations", "invitation", Invitation, acts=(WITHDRAW,), order=("-created_at", "-pk"))


def find(token: str) -> Invitation | None:
    """The open invitation of a link."""
    open_ones = Invitation.objects.open().select_related("inviter", "workspace")
    found = open_ones.filter(digest=_digest(token)).first()
    return found if found is None or found.inviter is None or found.inviter.is_active else None


def accept(token: str, person: User | None = None, *, email: str = "", name: str = "", password: str = "") -> User:
    """Let in who follows the link: `person`, or somebody new. Raises Refused."""
    newcomer = User(name=name)
    if person is None:
        newcomer.set_password(password)  # slow, so before the transaction
    with write_transaction():
        invitation = Invitation.objects.open().select_for_update().filter(digest=_digest(token)).first()
        if invitation is None:
            raise Refused("This invitation was used meanwhile, or it is too old. Ask for a new one.")
        address = (invitation.email or email).strip().lower()
        if person is None:
            newcomer.email = address
            person = _new_person(newcomer)
            if invitation.inviter_id is None:  # they signed up; inviters can read the links that they make
                links.confirm(person)
        elif invitation.email and person.email != address:
            raise Refused(f"This invitation is for {address}. Sign in with that address.")
        invitation.used_at, invitation.used_by = timezone.now(), person
        invitation.save(update_fields=["used_at", "used_by"])
        accepted.send(Invitation, invitation=invitation, person=person)
        audit.record(AuditAction.INVITATION_ACCEPTED, actor=person, object=invitation)
    return person


def _new_person(newcomer: User) -> User:
    if User.objects.filter(email__iexact=newcomer.email).exists():
        raise Refused("There is an account with this address. Sign in, then open the link again.")
    try:
        person = User.objects.add(newcomer)
    except IntegrityError:
        raise Refused("There is an account with this address. Sign in, then open the link again.") from None
    audit.record(AuditAction.USER_CREATED, actor=person, object=person, details={"by": "invitation"})
    return person


def is_of_sign_up_domain(address: str) -> bool:
    """Is the address of a domain of SIGN_UP_DOMAINS? `*` allows all."""
    domain = address.rpartition("@")[2].lower()
    return bool({domain, "*"} & {one.lower() for one in settings.SIGN_UP_DOMAINS})


def sign_up(address: str) -> int:
    """Send a link to the address. Returns for how many hours it works.

    Who has an account is told so in the letter, and the caller learns nothing.
    """
    link = ""
    if not User.objects.filter(email__iexact=address).exists():
        with write_transaction():
            Invitation.objects.open().filter(inviter=None, email=address).update(revoked_at=timezone.now())
            _, link = _make(links.SIGN_UP_LIFETIME, email=address)
    hours = links.SIGN_UP_LIFETIME // datetime.timedelta(hours=1)
    mail.send_later("account", address, link=link, hours=hours)
    return hours


def _make(lifetime: datetime.timedelta, **fields: object) -> tuple[Invitation, str]:
    token = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(digest=_digest(token), expires_at=timezone.now() + lifetime, **fields)
    return invitation, f"{settings.PUBLIC_BASE_URL}{reverse('web:invitation', args=[token])}"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
