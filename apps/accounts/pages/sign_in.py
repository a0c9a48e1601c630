"""The sign-in page, and the forms that django-allauth shows in our look."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from allauth.account.forms import LoginForm
from allauth.account.views import LoginView
from allauth.mfa.webauthn.forms import AddWebAuthnForm
from allauth.socialaccount.providers.openid_connect import views as oidc
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from apps.accounts.models import User
from apps.accounts.people import mail
from apps.accounts.people.single_sign_on import Unreachable
from apps.web.shell import as_reader

FIRST_LOGIN = "first-login.txt"  # in DATA_DIR: see `examples.showcase`


class SignInForm(LoginForm):
    """E-mail and password; the name of the first field is `username`, which password managers know."""

    def add_prefix(self, field_name: str) -> str:
        return super().add_prefix("username" if field_name == "login" else field_name)


class PasskeyForm(AddWebAuthnForm):
    """A key that signs in alone, unless the person says otherwise."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].help_text = "So that you recognize it, such as “phone”."
        alone = self.fields["passwordless"]
        alone.initial, alone.label = True, "Sign in with it alone, without a password"
        alone.help_text = "Older security keys cannot do this: then it is a second factor after the password."


class SignIn(LoginView):
    template_name = "accounts/sign_in.html"
    form_class = SignInForm

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        about = super().get_context_data(**kwargs)
        may_sign_up = bool(settings.SIGN_UP_DOMAINS) and mail.can_send()
        return {
            **about,
            "may_sign_up": may_sign_up,
            "has_first_login": has_first_login(),
            "single_sign_on": settings.OIDC_NAME if settings.OIDC_URL else "",
            "next": self.get_next_url() or "",
        }

    def get(self, request: HttpRequest, *args: str, **kwargs: Any) -> HttpResponseBase:
        """The page. For htmx, which follows redirects, 401 instead."""
        return HttpResponse(status=401) if "HX-Request" in request.headers else super().get(request, *args, **kwargs)


def has_first_login() -> bool:
    """Has the first start made a login that nobody has used yet?"""
    is_written = (Path(settings.DATA_DIR) / FIRST_LOGIN).is_file()
    return is_written and not User.objects.filter(last_login__isnull=False).exists()


def guarded[**P](view: Callable[P, HttpResponseBase]) -> Callable[P, HttpResponseBase]:
    """A page that takes secrets, for who may not be signed in yet: as `private_view`."""

    @never_cache
    @sensitive_post_parameters()
    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        with as_reader(request):
            response = view(request, *args, **kwargs)  # type: ignore[arg-type]
            if hasattr(response, "render"):
                response.render()
            return response

    return shown  # type: ignore[return-value]


def sign_in_at(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """Leads to the other server's sign-in (`OIDC_URL`). Accounts are connected by their address alone."""
    if "process" in request.GET or request.user.is_authenticated:
        return redirect("web:home")
    return _if_reachable(oidc.login, request, provider_id)


def signed_in_at(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    return _if_reachable(oidc.callback, request, provider_id)


def _if_reachable(view: Callable[..., HttpResponseBase], request: HttpRequest, provider_id: str) -> HttpResponseBase:
    try:
        return view(request, provider_id)
    except Unreachable:
        messages.error(request, f"{settings.OIDC_NAME} cannot be reached. Try again later.")
        return redirect("web:sign-in")


def cancelled(request: HttpRequest) -> HttpResponse:
    return redirect("web:sign-in")
