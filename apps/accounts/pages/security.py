"""How a person signs in: password, authenticator app, passkeys, recovery codes, and the browsers that are signed in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib.auth import update_session_auth_hash
from django.http import Http404, HttpRequest, HttpResponse

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.accounts.pages.account import saved
from apps.accounts.people.sign_in import needs_second_factor, sign_out_everywhere
from apps.web.settings.sections import person_of, private_view, settings_page
from parley.db.sql import write_transaction


@private_view
def security(request: HttpRequest) -> HttpResponse:
    person = person_of(request)
    found: dict[str, list[Any]] = {kind: [] for kind in Authenticator.Type.values}
    for authenticator in Authenticator.objects.filter(user=person):
        found[authenticator.type].append(authenticator.wrap())
    return settings_page(
        request,
        "security",
        app=found["totp"],
        passkeys=found["webauthn"],
        recovery_codes=found["recovery_codes"],
        browsers=browsers_of(person),
        here=request.session.session_key,
        must_add=needs_second_factor(person),
    )


BROWSERS = {"Edg": "Edge", "OPR": "Opera", "Firefox": "Firefox", "Chrome": "Chrome", "Safari": "Safari"}
SYSTEMS = {
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Windows": "Windows",
    "Mac OS": "Mac",
    "Linux": "Linux",
}
"""What user agents contain, the more exact first, and what people call it."""


def browsers_of(person: User) -> Sequence[UserSession]:
    """Where the person is signed in, the newest first, with a `name`. Ended sessions are forgotten."""
    found = UserSession.objects.purge_and_list(person)
    for session in found:
        session.name = browser_name(session.user_agent)
    return sorted(found, key=lambda one: one.created_at, reverse=True)


def browser_name(user_agent: str) -> str:
    """Such as "Chrome on Linux"; the beginning of what it says if that is unknown."""
    browser = next((name for mark, name in BROWSERS.items() if mark in user_agent), "")
    system = next((name for mark, name in SYSTEMS.items() if mark in user_agent), "")
    return f"{browser} on {system}" if browser and system else user_agent[:60] or "Unknown browser"


@private_view
def end_session(request: HttpRequest, number: int) -> HttpResponse:
    """Sign out one of the person's browsers."""
    session = UserSession.objects.filter(user=person_of(request), pk=number).first()
    if session is None or request.method != "POST":
        raise Http404
    with write_transaction():
        session.end()
        audit.record(AuditAction.SESSIONS_ENDED, object=person_of(request), details={"address": session.ip})
    return saved(request, "security", "That browser is signed out.")


@private_view
def end_sessions(request: HttpRequest) -> HttpResponse:
    """Sign out all browsers but this one."""
    if request.method != "POST":
        raise Http404
    person = person_of(request)
    sign_out_everywhere(person)
    update_session_auth_hash(request, person)
    UserSession.objects.create_from_request(request)
    return saved(request, "security", "All other browsers are signed out.")
