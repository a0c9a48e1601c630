"""Signing in with django-allauth: how wrong passwords are counted, and what else differs from its defaults.

Wrong passwords count for the account, for the address, for the password and in all (`ACCOUNT_RATE_LIMITS`), at every
door, in Django's cache, which all processes share. A browser in which somebody has signed in has a count of its own for
that account, so that strangers cannot keep people out.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter, get_adapter
from allauth.account.decorators import reauthentication_required
from allauth.core import ratelimit
from allauth.mfa import signals
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.crypto import get_random_string, salted_hmac
from django.utils.decorators import sync_only_middleware

from apps.accounts import audit, revocation
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.accounts.people import mail
from apps.accounts.principals import address_key
from apps.accounts.refusals import refusals
from apps.accounts.secrets.encryption import CannotDecrypt, ReencryptionCount, is_encrypted, key_id_of, keyring
from parley.db.sql import write_transaction

KNOWN_BROWSER = "known-browser"  # a signed cookie: an id, and digests of accounts
KNOWN_BROWSER_SECONDS = 365 * 24 * 3600
KNOWN_ACCOUNTS = 5  # of one browser
OTHER_WAYS = {
    "mfa_reauthenticate:webauthn": "Use a passkey",
    "mfa_reauthenticate": "Use a code of your app, or a recovery code",
}
"""What people read where they may confirm in another way, by allauth's ids."""


class Adapter(DefaultAccountAdapter):
    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "email_password_mismatch": "The e-mail address or password is incorrect. Passwords are case-sensitive.",
        "incorrect_password": "This is not your password. Capital letters count.",
        "incorrect_code": "This code is not right, or was used. Wait for the next one, and enter that.",
        "too_many_login_attempts": "Too many failed attempts. Wait ten minutes, then try again.",
        "rate_limited": "Too many requests. Wait a minute, then try again.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """People come by invitations (`apps.accounts.people.invitations`)."""
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        """IPv6 sockets show all IPv4 callers in one network."""
        address = str(request.META.get("REMOTE_ADDR") or "")
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            return address or "unknown"
        return str(getattr(ip, "ipv4_mapped", None) or ip)

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Raises ValidationError after too many wrong passwords, whether the account exists or not."""
        account = account_of(credentials)
        for action, key in limits_of(request, account, str(credentials.get("password") or "")):
            if not ratelimit.consume(request, action=action, key=key, dry_run=True):
                refusals.count_sign_in(account, request, "too many failed attempts")
                raise self.validation_error("too_many_login_attempts")

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        for action, key in limits_of(request, account_of(credentials), str(credentials.get("password") or "")):
            ratelimit.consume(request, action=action, key=key)

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        """Who has no password is asked for a passkey before a code."""
        order = ("reauthenticate", "mfa_reauthenticate:webauthn")
        found = [
            {**one, "description": OTHER_WAYS.get(one["id"], one["description"])}
            for one in super().get_reauthentication_methods(user)
        ]
        return sorted(found, key=lambda one: order.index(one["id"]) if one["id"] in order else len(order))

    def post_login(self, request: HttpRequest, user: AbstractBaseUser, **about: Any) -> HttpResponse:
        response = super().post_login(request, user, **about)
        remember_browser(request, response, user.get_username())
        return response


def account_of(credentials: dict[str, Any]) -> str:
    return str(credentials.get("email") or credentials.get("username") or "").strip().lower()


def limits_of(request: HttpRequest, account: str, password: str) -> Iterator[tuple[str, str]]:
    """The counts that a wrong password adds to: rates of ACCOUNT_RATE_LIMITS, with their keys."""
    browser, accounts = known_browser(request)
    if _digest(account) in accounts:
        yield "wrong_passwords_of_known_browser", f"{browser} {account}"
        return
    yield "wrong_passwords_of_account", account
    yield "wrong_passwords_of_address", address_key(str(request.META.get("REMOTE_ADDR", "")))
    yield "wrong_password_of_many", _digest(password)
    yield "wrong_passwords", "all"


def forget_wrong_passwords(request: HttpRequest, person: User) -> None:
    """After a new password by a link, old attempts keep nobody out."""
    ratelimit.clear(request, action="wrong_passwords_of_account", key=person.email.lower())


def known_browser(request: HttpRequest) -> tuple[str, list[str]]:
    """The browser's id, and digests of the accounts that signed in there."""
    cookie = request.get_signed_cookie(KNOWN_BROWSER, "", max_age=KNOWN_BROWSER_SECONDS)
    browser, *accounts = (cookie or "").split(".")
    return browser, accounts


def remember_browser(request: HttpRequest, response: HttpResponse, account: str) -> None:
    browser, accounts = known_browser(request)
    own = _digest(account.lower())
    kept = [own, *(other for other in accounts if other != own)][:KNOWN_ACCOUNTS]
    response.set_signed_cookie(
        KNOWN_BROWSER,
        ".".join([browser or get_random_string(22), *kept]),
        max_age=KNOWN_BROWSER_SECONDS,
        secure=request.is_secure(),
        httponly=True,
        samesite="Lax",
    )


def _digest(secret: str) -> str:
    return salted_hmac("parley.sign-in", secret, algorithm="sha256").hexdigest()[:32]


def confirmation_problem(person: User, password: str) -> str:
    """Why the password does not confirm that the person is here; "" if it does.

    Who has no password confirms by a second factor: raises ReauthenticationRequired, on which allauth's middleware asks
    for it and then repeats the request.
    """
    request = audit.current_request()
    if not person.has_usable_password():
        reauthentication_required(lambda _: None)(request)
        return ""
    if not password:
        return "Enter your password."
    try:
        is_right = get_adapter().reauthenticate(person, password)
    except ValidationError as locked:
        return " ".join(locked.messages)
    return "" if is_right else Adapter.error_messages["incorrect_password"]


def needs_second_factor(person: User) -> bool:
    """Does a rule of the installation (`MFA_FOR_OPERATORS`) ask for a second factor that the person does not have?"""
    return person.needs_proof


def sign_out_everywhere(person: User) -> None:
    """End all sessions of the person in browsers: the hash that each has is no longer right."""
    with write_transaction():
        User.objects.filter(pk=person.pk).update(sign_outs=F("sign_outs") + 1)
        person.refresh_from_db(fields=["sign_outs"])
        revocation.announce(person.pk)
        audit.record(AuditAction.SESSIONS_ENDED, object=person)


class Secrets(DefaultMFAAdapter):
    """Keys of authenticator apps and recovery codes are encrypted as other secrets are."""

    error_messages = {**DefaultMFAAdapter.error_messages, "incorrect_code": Adapter.error_messages["incorrect_code"]}

    def get_totp_issuer(self) -> str:
        return "Parley"

    def generate_authenticator_name(self, user: AbstractBaseUser, type: Authenticator.Type) -> str:
        return f"Passkey {Authenticator.objects.filter(user_id=user.pk, type=type).count() + 1}"

    def encrypt(self, text: str) -> str:
        return keyring().encrypt(text, SECRETS_PURPOSE)

    def decrypt(self, encrypted_text: str) -> str:
        return keyring().decrypt(encrypted_text, SECRETS_PURPOSE)


SECRETS_PURPOSE = "mfa_authenticator.data"


def reencrypt_second_factors() -> ReencryptionCount:
    """Encrypt what older master keys encrypted again, as `encryption.reencrypt` does with fields."""
    count = ReencryptionCount(SECRETS_PURPOSE)
    for authenticator in Authenticator.objects.exclude(type=Authenticator.Type.WEBAUTHN).order_by("pk"):
        old = {name: value for name, value in authenticator.data.items() if isinstance(value, str)}
        old = {
            name: value for name, value in old.items() if is_encrypted(value) and key_id_of(value) != keyring().current
        }
        try:
            new = {
                name: keyring().encrypt(keyring().decrypt(value, SECRETS_PURPOSE), SECRETS_PURPOSE)
                for name, value in old.items()
            }
        except CannotDecrypt as error:
            count.unreadable, count.reason = count.unreadable + 1, str(error)
            continue
        if new:
            authenticator.data |= new
            authenticator.save(update_fields=["data"])
            count.renewed += 1
    return count


def connect_audit() -> None:
    for signal, action in (
        (signals.authenticator_added, AuditAction.FACTOR_ADDED),
        (signals.authenticator_removed, AuditAction.FACTOR_REMOVED),
        (signals.authenticator_reset, AuditAction.FACTOR_CHANGED),
    ):
        signal.connect(partial(_factor_changed, action), weak=False, dispatch_uid=f"audit {action}")


def _factor_changed(
    action: AuditAction, request: HttpRequest, user: User, authenticator: Authenticator, **_: object
) -> None:
    if action == AuditAction.FACTOR_ADDED and user.is_staff:
        sign_out_everywhere(user)  # a browser that knew the password alone gets no rights by it
        update_session_auth_hash(request, user)
    kind = authenticator.get_type_display()
    audit.record(action, actor=user, object=user, details={"kind": kind})
    mail.tell_of_change(user.email, f"{action.label[0].upper()}{action.label[1:]}: {kind}.")


@sync_only_middleware
def require_second_factor(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: leads operators who need a second factor (`MFA_FOR_OPERATORS`) from admin to where they add it.

    The rights themselves ask for it: `User.is_operator` and `User.has_perm`, at every door.
    """

    def respond(request: HttpRequest) -> HttpResponse:
        if request.path.startswith("/admin/") and _lacks_second_factor(request.user):
            return redirect("web:settings-security")
        return get_response(request)

    return respond


def _lacks_second_factor(user: object) -> bool:
    return isinstance(user, User) and needs_second_factor(user)
