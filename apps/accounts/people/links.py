"""Links that are sent to people, and how long they work: to sign in, and to confirm an e-mail address.

`invitations` makes those that invite. A link to sign in works for PASSWORD_RESET_TIMEOUT.
"""

from __future__ import annotations

import datetime

from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth.tokens import default_token_generator
from django.core import signing
from django.db.models import Q
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.accounts.people import mail
from parley.db.sql import write_transaction

ADDRESS_SALT = "accounts.address"
ADDRESS_LIFETIME = datetime.timedelta(hours=24)
INVITATION_LIFETIME = datetime.timedelta(days=7)
SIGN_UP_LIFETIME = datetime.timedelta(hours=24)


def sign_in_link(person: User) -> str:
    """Works until the person signs in or changes the password, at most PASSWORD_RESET_TIMEOUT seconds."""
    key = urlsafe_base64_encode(force_bytes(person.pk))
    token = default_token_generator.make_token(person)
    return f"{settings.PUBLIC_BASE_URL}{reverse('web:welcome', args=[key, token])}"


def address_link(person: User, address: str) -> str:
    """Confirms that the person reads letters to the address. Works once, for ADDRESS_LIFETIME."""
    token = signing.dumps([person.pk, person.email, address], salt=ADDRESS_SALT)
    return f"{settings.PUBLIC_BASE_URL}{reverse('web:confirm-address', args=[token])}"


def address_change(token: str) -> tuple[User, str] | None:
    """Whose address it changes, and into what; None for an old link, or if somebody has the address meanwhile."""
    try:
        key, before, address = signing.loads(token, salt=ADDRESS_SALT, max_age=ADDRESS_LIFETIME)
    except signing.BadSignature:
        return None
    person = User.objects.filter(pk=key, email=before, is_active=True).first()
    is_free = not User.objects.filter(email__iexact=address).exists()
    return (person, address) if person is not None and is_free else None


def change_address(person: User, address: str) -> None:
    """Raises IntegrityError if somebody took the address meanwhile."""
    before, person.email = person.email, address
    with write_transaction():
        person.save(update_fields=["email"])
        confirm(person)
        audit.record(AuditAction.EMAIL_CHANGED, actor=person, object=person, details={"before": before})
    mail.tell_of_change(before, f"You sign in with {address} now.")


def confirm(person: User) -> None:
    """Their address is known to be theirs: only letters to it had the link. Their other addresses no longer count."""
    EmailAddress.objects.filter(Q(user=person) | Q(email__iexact=person.email)).delete()
    EmailAddress.objects.create(user=person, email=person.email, verified=True, primary=True)


def is_confirmed(person: User) -> bool:
    """Did they open a link that only a letter to their address had, or did single sign-on say that it is theirs?"""
    return bool(EmailAddress.objects.filter(user=person, email__iexact=person.email, verified=True).exists())
