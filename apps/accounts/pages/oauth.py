"""OAuth's addresses: django-allauth's views with our limits, and the metadata of what its tokens open.

People see the pages for consent and for devices; the other addresses are for programs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

from allauth.idp.oidc import views
from allauth.idp.oidc.forms import RPInitiatedLogoutForm
from allauth.idp.oidc.models import Client, Token
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.signing import BadSignature, Signer
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, RawPostDataException
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import include, path
from django.views.decorators.csp import csp_override
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from apps.accounts import audit
from apps.accounts.audit import Subject
from apps.accounts.audit_models import AuditAction
from apps.accounts.clients import oauth, open_clients
from apps.accounts.principals import TASK_SCOPES
from apps.accounts.requests import quotas
from apps.accounts.requests.challenges import METADATA_PATH
from parley.db.sql import write_transaction

View = Callable[..., HttpResponseBase]
ORIGIN = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:\d{1,5})?(?=[/?]|\Z)", re.ASCII)
MOST_METADATA = 16 * 1024  # bytes of a registration


def if_enabled(view: View) -> View:
    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **address: Any) -> HttpResponseBase:
        if not settings.OAUTH_ENABLED:
            raise Http404
        return view(request, *args, **address)

    return shown


def for_programs(view: View) -> View:
    """Needs no CSRF token. Requests are counted by address, and failures also by client, whether there is it or not.

    Who sends a wrong secret is refused here, before `view` begins a transaction.
    """

    @if_enabled
    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponseBase:
        address = str(request.META.get("REMOTE_ADDR", ""))
        client, secret = oauth.credentials_in(request)
        try:
            quotas.count_oauth(address)
            quotas.check_oauth_failures(client, address)
        except quotas.QuotaExceeded as exceeded:
            wait = {"Retry-After": str(exceeded.retry_after)}
            return _refusal("temporarily_unavailable", str(exceeded), 429, wait)
        if secret and not oauth.has_secret(client, secret):
            scheme = {"WWW-Authenticate": "Basic"} if "Authorization" in request.headers else {}
            response: HttpResponseBase = _refusal("invalid_client", "This is not the client's secret.", 401, scheme)
        else:
            try:
                response = view(request)
            except ValidationError as wrong:  # the resource
                response = _refusal("invalid_target", " ".join(wrong.messages))
        if _error_in(response) in ("invalid_client", "invalid_grant"):
            quotas.count_oauth_failure(client, address)
        response["Cache-Control"] = "no-store"
        return response

    return csrf_exempt(answer)


def _refusal(error: str, words: str, status: int = 400, headers: dict[str, str] | None = None) -> JsonResponse:
    return JsonResponse({"error": error, "error_description": words}, status=status, headers=headers)


def _error_in(response: HttpResponseBase) -> str:
    """The code of a refusal (RFC 6749 §5.2); "" for an answer."""
    if response.status_code < 400 or not isinstance(response, HttpResponse):
        return ""
    with suppress(ValueError):
        said = json.loads(response.content)
        return str(said.get("error", "")) if isinstance(said, dict) else ""
    return ""


def token(request: HttpRequest) -> HttpResponseBase:
    """A refresh token counts once, also at the same moment; a second use ends all tokens of its grant."""
    oauth.signing_key()  # it may be made now, which is slow, and no work for a transaction
    value = request.POST.get("refresh_token", "")
    if request.POST.get("grant_type") != Client.GrantType.REFRESH_TOKEN or not value:
        return cast(HttpResponseBase, views.token(request))
    with write_transaction():
        of_value = Token.objects.select_for_update().by_value(value)
        held = of_value.filter(type=Token.Type.REFRESH_TOKEN).first()
        response = cast(HttpResponseBase, views.token(request))
        if held is None:
            oauth.end_grant(value)
        elif response.status_code == 200:
            oauth.note_used(held)
    return response


@csrf_exempt
@if_enabled
def authorize(request: HttpRequest) -> HttpResponseBase:
    """The page for consent; allauth checks its CSRF token."""
    asked: Mapping[str, Any] = request.GET if request.method == "GET" else request.POST
    policy: dict[str, Any] = settings.SECURE_CSP
    if "request" in request.POST:  # the answer of the page's form
        asked = _signed(request)
    elif request.user.is_authenticated or not open_clients.is_document(asked.get("client_id", "")):
        if problem := _unread(request, asked) or _problem_of(asked):
            return _error_page(request, problem)
        if "none" in asked.get("prompt", "").split() and not request.user.is_authenticated:
            if _is_open(asked):  # anybody could lead people anywhere by it
                return _error_page(request, "Sign in first.")
            return _login_required(asked.get("redirect_uri", ""), asked.get("state", ""))
    elif "none" in asked.get("prompt", "").split():  # documents are read for people who are signed in
        return _error_page(request, "Sign in first.")
    address, told = str(asked.get("redirect_uri", "")), dict[str, str]()
    if request.user.is_authenticated and (client := known_client(str(asked.get("client_id", "")))):
        if open_clients.is_self_registered(client):
            open_clients.choose_port(client, address)
        # A browser follows the form's redirect to the program only if the page allows it.
        policy = {**policy, "form-action": ["'self'", *redirect_source(address)]}
        told = {"returns_to": redirect_target(address), "address": address}
    page = views.AuthorizationView.as_view(extra_context=told)
    response = cast(HttpResponseBase, csp_override(policy)(page)(request))
    if "error=" in response.headers.get("Location", "") and "request" not in request.POST and _is_open(asked):
        return _error_page(request, "The program asks for what Parley cannot give. Tell its makers.")
    if request.POST.get("action") == "grant" and "code=" in response.headers.get("Location", ""):
        _, asked_for = Signer().unsign_object(request.POST["request"])
        record_access(request, asked_for["client_id"], request.POST.getlist("scopes"))
    return response


def _is_open(asked: Mapping[str, Any]) -> bool:
    """Did the client register itself? Nobody checked where it leads."""
    client = known_client(str(asked.get("client_id", "")))
    return client is not None and open_clients.is_self_registered(client)


def _error_page(request: HttpRequest, problem: str) -> HttpResponse:
    return render(request, "idp/oidc/error.html", {"error": {"description": problem}}, status=400)


def _signed(request: HttpRequest) -> Mapping[str, Any]:
    """What the page's form is the answer to; nothing if somebody changed it, which allauth refuses."""
    with suppress(BadSignature, ValueError, TypeError):
        return cast(Mapping[str, Any], Signer().unsign_object(request.POST["request"])[1])
    return {}


def _unread(request: HttpRequest, asked: Mapping[str, str]) -> str:
    """Read the metadata of a program that names their address as its id; why it cannot be read, or ""."""
    name = asked.get("client_id", "")
    if not (settings.OAUTH_OPEN_REGISTRATION and open_clients.is_document(name)) or open_clients.is_fresh(name):
        return ""
    try:
        quotas.count_registration(str(request.META.get("REMOTE_ADDR", "")))
        open_clients.read_document(name)
    except (open_clients.InvalidMetadata, open_clients.TooManyClients, quotas.QuotaExceeded) as problem:
        return str(problem)
    return ""


def known_client(name: str) -> Client | None:
    return Client.objects.filter(pk=name).first() if name.isprintable() else None


def _problem_of(asked: Mapping[str, str]) -> str:
    """Why a request for a code is not answered to the program, in a sentence for the person; "" if it is."""
    client = known_client(asked.get("client_id", ""))
    if not is_protected(asked, client):
        return "The program that sent you here must use PKCE (code_challenge). Tell its makers."
    if client is None:
        return "Parley does not know the program that sent you here. Tell its makers."
    if not oauth.is_registered(asked.get("redirect_uri", ""), client.get_redirect_uris()):
        return "The address to which the program wants you to return is not one that it registered. Tell its makers."
    return ""


def _login_required(address: str, state: str) -> HttpResponse:
    """The program asked without showing a page (`prompt=none`), and nobody is signed in (OpenID Connect §3.1.2.6)."""
    said = {"error": "login_required", "error_description": "Nobody is signed in here."}
    query = urlencode(said | ({"state": state} if state else {}))
    response = HttpResponse(status=302)  # Django's class for redirects refuses the schemes of apps
    response["Location"] = f"{address}{'&' if '?' in address else '?'}{query}"
    return response


class LogoutForm(RPInitiatedLogoutForm):  # allauth has no types
    """Leads back only to an address that the program registered, to the letter."""

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean()
        address, client = cleaned.get("post_logout_redirect_uri"), cleaned.get("client")
        if address and client:
            known = client.get_post_logout_redirect_uris() or client.get_redirect_uris()
            if not oauth.is_registered(address, known):
                self.add_error("post_logout_redirect_uri", "The program did not register this address.")
        return cleaned


def record_access(request: HttpRequest, client: str, scopes: list[str]) -> None:
    name = Client.objects.filter(pk=client).values_list("name", flat=True).first() or "a device"
    subject = Subject(Client._meta.label_lower, client, name)
    audit.record(AuditAction.PROGRAM_ALLOWED, object=subject, details={"scopes": scopes}, request=request)


def is_protected(asked: Mapping[str, str], client: Client | None) -> bool:
    """Whether a stolen code is of no use: by PKCE (OAuth 2.1 §7.5), or for programs with a secret by OpenID's nonce."""
    has_secret = client is not None and client.type == Client.Type.CONFIDENTIAL
    by_nonce = has_secret and "openid" in asked.get("scope", "").split() and asked.get("nonce")
    return bool(asked.get("code_challenge") or by_nonce)


def register(request: HttpRequest) -> HttpResponseBase:
    """A program registers itself (RFC 7591)."""
    if not settings.OAUTH_OPEN_REGISTRATION or request.method != "POST":
        return _refusal("access_denied", "Programs cannot register themselves here.", 404)
    try:
        quotas.count_registration(str(request.META.get("REMOTE_ADDR", "")))
        said = json.loads(request.body) if len(request.body) <= MOST_METADATA else None
        return JsonResponse(open_clients.register(said), status=201)
    except (ValueError, RecursionError, RawPostDataException):  # a form of several parts is read already
        return _refusal("invalid_client_metadata", "Send a JSON object.")
    except open_clients.InvalidMetadata as wrong:
        return _refusal(wrong.code, str(wrong))
    except quotas.QuotaExceeded as exceeded:
        return _refusal("temporarily_unavailable", str(exceeded), 429, {"Retry-After": str(exceeded.retry_after)})
    except open_clients.TooManyClients as full:
        return _refusal("temporarily_unavailable", str(full), 503, {"Retry-After": "3600"})


def redirect_target(address: str) -> str:
    """Where an address leads, in words for a person."""
    parts = urlsplit(address)
    if parts.hostname in ("localhost", "127.0.0.1", "::1") and parts.scheme == "http":
        return "a program on your own computer"
    return str(parts.hostname) if parts.scheme == "https" else f"the app that opens {parts.scheme}: addresses"


def redirect_source(address: str) -> list[str]:
    """The address's origin, or the scheme of an app's own, as a source of a Content-Security-Policy."""
    if origin := ORIGIN.match(address):
        return [origin[0]]
    return [f"{urlsplit(address).scheme}:"] if open_clients.has_own_scheme(address) else []


@if_enabled
def device(request: HttpRequest) -> HttpResponseBase:
    """The page for a device's code. Unlike allauth's, it wants a CSRF token: nobody can approve for somebody else."""
    response = cast(HttpResponseBase, views.device_authorization(request))
    if request.method == "POST" and request.POST.get("action") == "confirm" and response.status_code == 200:
        record_access(request, "", [])
    return response


@require_safe
@if_enabled
def resource_metadata(request: HttpRequest, resource: str = "") -> HttpResponse:
    """What a token opens (RFC 9728), such as one agent. It says nothing of whether there is that agent."""
    about = f"{settings.PUBLIC_BASE_URL}/{resource}".rstrip("/")
    slug = oauth.agent_of(about)
    if slug is None:
        raise Http404
    told = {
        "resource": about,
        "authorization_servers": [settings.PUBLIC_BASE_URL],
        "scopes_supported": [*TASK_SCOPES, *([f"{oauth.AGENT_SCOPE}{slug}"] if slug else [])],
        "bearer_methods_supported": ["header"],
        "resource_name": "Parley",
    }
    response = JsonResponse(told)
    response["Access-Control-Allow-Origin"] = "*"
    response["Cache-Control"] = "public, max-age=300"
    return response


oidc_urlpatterns = [
    path(".well-known/openid-configuration", if_enabled(views.configuration), name="configuration"),
    path(".well-known/oauth-authorization-server", if_enabled(views.configuration)),
    path("oauth/jwks.json", if_enabled(views.jwks), name="jwks"),
    path("oauth/authorize", authorize, name="authorization"),
    path("oauth/device", device, name="device_authorization"),
    path("oauth/device/code", for_programs(views.device_code), name="device_code"),
    path("oauth/token", for_programs(token), name="token"),
    path("oauth/register", for_programs(register), name="client_registration"),
    path("oauth/revoke", for_programs(views.revoke), name="revoke"),
    path("oauth/userinfo", for_programs(views.user_info), name="userinfo"),
    path("oauth/logout", if_enabled(views.LogoutView.as_view(form_class=LogoutForm)), name="logout"),
]
urlpatterns = [
    path(METADATA_PATH.removeprefix("/"), resource_metadata),
    path(f"{METADATA_PATH.removeprefix('/')}/<path:resource>", resource_metadata),
    path("", include(([path("", include((oidc_urlpatterns, "oidc")))], "idp"))),
]
