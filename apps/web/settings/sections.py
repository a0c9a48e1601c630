"""What all pages of the settings share: the list of sections, and how a page is shown."""

from __future__ import annotations

from functools import wraps
from http import HTTPStatus
from inspect import iscoroutinefunction
from typing import Any, cast

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.forms.forms import BaseForm
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from apps.accounts.models import User
from apps.accounts.people.invitations import may_invite
from apps.web.shell import View, as_reader, page

SECTIONS = {
    "profile": ("Profile", "person"),
    "password": ("Password", "lock"),
    "security": ("Security", "seal"),
    "appearance": ("Appearance", "theme"),
    "notifications": ("Notifications", "bell"),
    "workspaces": ("Workspaces", "group"),
    "keys": ("API keys", "key"),
    "programs": ("Programs", "link"),
    "credentials": ("Credentials", "seal"),
    "usage": ("Usage", "chart"),
    "destinations": ("Where it went", "link"),
    "data": ("My data", "download"),
}
"""The title and the icon of each section, by the end of its address."""
FOR_INVITERS = {"invitations": ("Invitations", "person")}
FOR_OPERATORS = {"models": ("Language models", "operate")}


def sections_of(person: User) -> dict[str, tuple[str, str]]:
    """The sections that the person may open."""
    found = {**SECTIONS, **FOR_INVITERS} if may_invite(person) else SECTIONS
    if person.may_operate("installation.view_modelconnection"):
        found = {**found, **FOR_OPERATORS}
    return found if settings.OAUTH_ENABLED else {name: about for name, about in found.items() if name != "programs"}


def private_view(view: Any) -> View:
    """A page that takes secrets: no report shows what was sent, nothing keeps it. `view` may be async.

    Runs in the person's time zone.
    """

    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **address: Any) -> HttpResponseBase:
        with as_reader(request):
            return cast("HttpResponseBase", view(request, *args, **address))

    @wraps(view)
    async def shown_async(request: HttpRequest, *args: Any, **address: Any) -> HttpResponseBase:
        request.user = await request.auser()
        with as_reader(request):
            return cast("HttpResponseBase", await view(request, *args, **address))

    found: Any = sensitive_variables()(shown_async if iscoroutinefunction(view) else shown)
    found = never_cache(login_required(sensitive_post_parameters()(found)))
    return cast("View", require_http_methods(["GET", "HEAD", "POST"])(found))


def settings_page(request: HttpRequest, section: str, *forms: BaseForm, **context: Any) -> HttpResponse:
    """The page of a section, or with another `template`; 422 if one of these forms has errors."""
    sections = sections_of(person_of(request))
    title, _ = sections[section]
    has_problems = any(form.is_bound and not form.is_valid() for form in forms)
    about = {"sections": sections, "section": section, "section_title": title, **context}
    response = page(request, about.pop("template", f"web/settings_{section}.html"), **about)
    if has_problems:
        response.status_code = HTTPStatus.UNPROCESSABLE_ENTITY
    return response


def person_of(request: HttpRequest) -> User:
    """The signed-in person."""
    return cast("User", request.user)
