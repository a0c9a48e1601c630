"""Signing in and out, with a limit on wrong passwords."""

from __future__ import annotations

import hashlib
from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse

FAILURES = 10  # wrong passwords for one address within WINDOW before it has to wait
WINDOW = 10 * 60  # seconds


class SignInForm(AuthenticationForm):
    """E-mail and password. A person who guesses too often waits, whether the address exists or not."""

    error_messages = {
        "invalid_login": "The e-mail address or the password is not right. Capital letters count in passwords.",
        "inactive": "This account is switched off. Ask whoever runs this installation.",
    }
    waiting = "Too many wrong passwords for this address. Wait ten minutes, then try again."

    def clean(self) -> dict[str, Any]:
        key = self._key()
        if int(cache.get(key, 0)) >= FAILURES:
            raise ValidationError(self.waiting, code="waiting")
        try:
            return super().clean()
        except ValidationError:
            cache.add(key, 0, WINDOW)
            cache.incr(key)
            raise

    def _key(self) -> str:
        """Where the failures for this address are counted: by address, and by where they come from."""
        address = str(self.data.get("username", "")).strip().lower()
        origin = self.request.META.get("REMOTE_ADDR", "") if self.request else ""
        return "sign-in:" + hashlib.sha256(f"{address}\0{origin}".encode()).hexdigest()


class SignIn(LoginView):
    """The sign-in page; `next` is followed only within this site."""

    template_name = "web/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def get(self, request: HttpRequest, *args: str, **kwargs: Any) -> HttpResponse:
        """The page. Who asked for a piece of another one was led here, and is not given this one in its place."""
        return HttpResponse(status=401) if "HX-Request" in request.headers else super().get(request, *args, **kwargs)
