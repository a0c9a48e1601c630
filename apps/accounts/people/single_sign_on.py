"""Signing in at another OpenID Connect server (`OIDC_URL`), by django-allauth; its calls go through `outbound`.

The server is trusted with addresses that it says are verified: somebody who has an account with such an address gets
that account. Others get one if OIDC_SIGN_UP says so, or if people of their domain may sign up.
"""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import Any, cast
from urllib.parse import urlsplit

import requests
from allauth.account.utils import user_email
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest
from django.shortcuts import redirect
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User, Workspace
from apps.accounts.people.invitations import is_of_sign_up_domain
from apps.accounts.refusals import refusals
from parley import outbound
from parley.db.sql import write_transaction

SECONDS = 10.0  # of one call
Unreachable = requests.RequestException  # the server, or what it says is an error


class Guarded(BaseAdapter):
    """What `requests` sends by: the guard of all outgoing calls, which also lets through to the server of OIDC_URL."""

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        """Raises requests.ConnectionError."""
        try:
            status, headers, body = asyncio.run(_exchanged(request))
        except outbound.OutboundError as error:
            raise requests.ConnectionError(str(error), request=request) from error
        response = requests.Response()
        response.status_code, response.url, response.request = status, request.url or "", request
        response.headers = CaseInsensitiveDict(headers)
        response.encoding = get_encoding_from_headers(response.headers)
        response.raw = BytesIO(body)
        return response

    def close(self) -> None:
        """Each call has connections of its own."""


async def _exchanged(request: requests.PreparedRequest) -> tuple[int, dict[str, str], bytes]:
    body = request.body or b""
    content = body.encode() if isinstance(body, str) else bytes(cast("bytes", body))  # no call sends a file
    headers = {name: str(value) for name, value in request.headers.items() if name.lower() != "content-length"}
    server = urlsplit(settings.OIDC_URL).netloc.rpartition("@")[2]
    async with (
        outbound.exchange(outbound.Limits(seconds=SECONDS), also=[server]) as way,
        way.send(request.method or "GET", request.url or "", headers, content) as answer,
    ):
        named = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers}
        return answer.status, named, await answer.read()


class Adapter(DefaultSocialAccountAdapter):
    def get_requests_session(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False
        session.mount("http://", Guarded())
        session.mount("https://", Guarded())
        return session

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Connect who has an account with this address already. Without a verified address nobody comes in."""
        if sociallogin.is_existing:
            return
        address = verified_address(sociallogin)
        if not address:
            self._refuse(request, "", "It does not say that your e-mail address is verified.")
        person = User.objects.filter(email__iexact=address).first()
        if person is not None:
            sociallogin.connect(request, person)
        elif not self.is_open_for_signup(request, sociallogin):
            self._refuse(request, address, "There is no account with your e-mail address. Ask for an invitation.")

    def _refuse(self, request: HttpRequest, address: str, sentence: str) -> None:
        refusals.count_sign_in(address, request, "single sign-on")
        messages.error(request, f"{settings.OIDC_NAME} did not sign you in. {sentence}")
        raise ImmediateHttpResponse(redirect("web:sign-in"))

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return bool(settings.OIDC_SIGN_UP or is_of_sign_up_domain(verified_address(sociallogin)))

    def populate_user(self, request: HttpRequest, sociallogin: SocialLogin, data: dict[str, Any]) -> User:
        person: User = super().populate_user(request, sociallogin, data)
        person.email, person.name = str(user_email(person) or "").lower(), str(data.get("name") or "")[:120]
        return person

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> User:
        with write_transaction():
            person: User = super().save_user(request, sociallogin, form)
            Workspace.open_for(person)
            audit.record(AuditAction.USER_CREATED, actor=person, object=person, details={"by": "single sign-on"})
        return person


def verified_address(sociallogin: SocialLogin) -> str:
    """The address that the server says is verified; "" if there is none."""
    return next((one.email.lower() for one in sociallogin.email_addresses if one.verified), "")
