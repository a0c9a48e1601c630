"""OAuth's addresses: django-allauth's views with our limits, and the metadata of what its tokens open.

People see the pages for consent and for devices; the other addresses are for programs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, cast

from allauth.idp.oidc import views
from allauth.idp.oidc.models import Client
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.signing import Signer
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import include, path
from django.views.decorators.csp import csp_override
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from apps.accounts import audit, oauth, quotas
from apps.accounts.audit import Subject
from apps.accounts.audit_models import AuditAction
from apps.accounts.challenges import METADATA_PATH
from apps.accounts.principals import TASK_SCOPES

View = Callable[..., HttpResponseBase]
ORIGIN = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:\d{1,5})?(?=[/?]|\Z)", re.ASCII)
OWN_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.ASCII)
UNSAFE_SCHEMES = ("http:", "https:", "javascript:", "data:", "vbscript:", "blob:")


def if_enabled(view: View) -> View:
    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **address: Any) -> HttpResponseBase:
        if not settings.OAUTH_ENABLED:
            raise Http404
        return view(request, *args, **address)

    return shown


def for_programs(view: View) -> View:
    """Needs no CSRF token; requests are counted by address, because checking a secret is slow."""

    @if_enabled
    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponseBase:
        try:
            quotas.count_oauth(str(request.META.get("REMOTE_ADDR", "")))
        except quotas.QuotaExceeded as exceeded:
            said = {"error": "temporarily_unavailable", "error_description": str(exceeded)}
            return JsonResponse(said, status=429, headers={"Retry-After": str(exceeded.retry_after)})
        try:
            response = view(request)
        except ValidationError as wrong:  # the resource
            said = {"error": "invalid_target", "error_description": " ".join(wrong.messages)}
            response = JsonResponse(said, status=400)
        response["Cache-Control"] = "no-store"
        return response

    return csrf_exempt(answer)


@csrf_exempt
@if_enabled
def authorize(request: HttpRequest) -> HttpResponseBase:
    """The page for consent; allauth checks its CSRF token."""
    asked = request.GET if request.method == "GET" else request.POST
    policy: dict[str, Any] = settings.SECURE_CSP
    if "request" not in request.POST:  # not yet the answer of the page's form
        if not is_protected(asked):
            words = "The program that sent you here must use PKCE (code_challenge). Tell its makers."
            return render(request, "idp/oidc/error.html", {"error": {"description": words}}, status=400)
        # A browser follows the form's redirect to the program only if the page allows it.
        policy = {**policy, "form-action": ["'self'", *redirect_source(asked.get("redirect_uri", ""))]}
    response = cast(HttpResponseBase, csp_override(policy)(views.authorization)(request))
    if request.POST.get("action") == "grant" and "code=" in response.headers.get("Location", ""):
        _, asked_for = Signer().unsign_object(request.POST["request"])
        record_access(request, asked_for["client_id"], request.POST.getlist("scopes"))
    return response


def record_access(request: HttpRequest, client: str, scopes: list[str]) -> None:
    name = Client.objects.filter(pk=client).values_list("name", flat=True).first() or "a device"
    subject = Subject(Client._meta.label_lower, client, name)
    audit.record(AuditAction.PROGRAM_ALLOWED, object=subject, details={"scopes": scopes}, request=request)


def is_protected(asked: Mapping[str, str]) -> bool:
    """Whether a stolen code is of no use: by PKCE (OAuth 2.1 §7.5), or by OpenID's nonce."""
    return bool(asked.get("code_challenge") or ("openid" in asked.get("scope", "").split() and asked.get("nonce")))


def redirect_source(address: str) -> list[str]:
    """The address's origin, or the scheme of an app's own, as a source of a Content-Security-Policy."""
    origin, scheme = ORIGIN.match(address), OWN_SCHEME.match(address)
    if origin:
        return [origin[0]]
    return [scheme[0]] if scheme and scheme[0] not in UNSAFE_SCHEMES else []


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
    path("oauth/token", for_programs(views.token), name="token"),
    path("oauth/revoke", for_programs(views.revoke), name="revoke"),
    path("oauth/userinfo", for_programs(views.user_info), name="userinfo"),
    path("oauth/logout", if_enabled(views.logout), name="logout"),
]
urlpatterns = [
    path(METADATA_PATH.removeprefix("/"), resource_metadata),
    path(f"{METADATA_PATH.removeprefix('/')}/<path:resource>", resource_metadata),
    path("", include(([path("", include((oidc_urlpatterns, "oidc")))], "idp"))),
]
