"""What all pages of the settings share: the list of sections, and how a page is shown."""

from __future__ import annotations

from functools import wraps
from http import HTTPStatus
from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.forms.forms import BaseForm
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.clickjacking import xframe_options_deny
from django.views.decorators.csp import csp_override
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from apps.accounts.models import User
from apps.web.shell import UNFRAMED_CSP, View, as_reader, page

SECTIONS = {
    "profile": ("Profile", "person"),
    "password": ("Password", "lock"),
    "appearance": ("Appearance", "theme"),
    "notifications": ("Notifications", "bell"),
    "keys": ("API keys", "key"),
    "credentials": ("Credentials", "seal"),
    "data": ("My data", "download"),
}
"""The title and the icon of each section, by the end of its address."""


def private_view(view: View) -> View:
    """A page that takes secrets: no other site may frame it, no report shows what was sent, nothing keeps it.

    Runs in the person's time zone.
    """

    @require_http_methods(["GET", "HEAD", "POST"])
    @never_cache
    @xframe_options_deny
    @csp_override(UNFRAMED_CSP)
    @login_required
    @sensitive_post_parameters()
    @sensitive_variables()
    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **address: Any) -> HttpResponseBase:
        with as_reader(request):
            return view(request, *args, **address)

    return shown


def settings_page(request: HttpRequest, section: str, *forms: BaseForm, **context: Any) -> HttpResponse:
    """The page of a section; 422 if one of these forms has errors."""
    title, _ = SECTIONS[section]
    has_problems = any(form.is_bound and not form.is_valid() for form in forms)
    about = {"sections": SECTIONS, "section": section, "section_title": title, **context}
    response = page(request, f"web/settings_{section}.html", **about)
    if has_problems:
        response.status_code = HTTPStatus.UNPROCESSABLE_ENTITY
    return response


def person_of(request: HttpRequest) -> User:
    """The signed-in person."""
    return cast("User", request.user)
