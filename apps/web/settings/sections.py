"""What all pages of the settings share: the list of sections, and how a page is shown."""

from __future__ import annotations

from functools import wraps
from http import HTTPStatus
from inspect import iscoroutinefunction
from typing import Any, NamedTuple, cast

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.forms.forms import BaseForm
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from apps.accounts.models import User
from apps.accounts.people.invitations import may_invite
from apps.accounts.resources import Act, Resource
from apps.web.resources import do
from apps.web.shell import View, as_reader, page


class Section(NamedTuple):
    """A section: title and icon, and the app that has its template."""

    title: str
    icon: str
    app: str = "web"


SECTIONS = {
    "profile": Section("Profile", "person", "accounts"),
    "password": Section("Password", "lock", "accounts"),
    "security": Section("Security", "seal", "accounts"),
    "appearance": Section("Appearance", "theme"),
    "notifications": Section("Notifications", "bell", "notifications"),
    "workspaces": Section("Workspaces", "group", "accounts"),
    "keys": Section("API keys", "key", "accounts"),
    "programs": Section("Programs", "link", "accounts"),
    "credentials": Section("Credentials", "seal", "credentials"),
    "usage": Section("Usage", "chart", "budgets"),
    "payments": Section("Payments", "seal", "payments"),
    "destinations": Section("Where it went", "link"),
    "data": Section("My data", "download", "accounts"),
}
"""By the end of their address."""
FOR_INVITERS = {"invitations": Section("Invitations", "person", "accounts")}
FOR_OPERATORS = {"models": Section("Language models", "operate", "model_agents")}


def sections_of(person: User) -> dict[str, Section]:
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
    of = sections[section]
    has_problems = any(form.is_bound and not form.is_valid() for form in forms)
    about = {"sections": sections, "section": section, "section_title": of.title, **context}
    response = page(request, about.pop("template", f"{of.app}/settings_{section}.html"), **about)
    if has_problems:
        response.status_code = HTTPStatus.UNPROCESSABLE_ENTITY
    return response


def person_of(request: HttpRequest) -> User:
    """The signed-in person."""
    return cast("User", request.user)


def act_view(section: str, resource: Resource[Any], act: Act[Any]) -> View:
    """The address of an act of a section's rows. A grave act asks first."""

    @private_view
    def acted(request: HttpRequest, **key: Any) -> HttpResponse:
        person = person_of(request)
        row = resource.find(person.principal, *key.values())
        if request.method == "POST":
            do(request, act, row)
        elif act.is_grave and act.is_offered(row) and section in sections_of(person):
            asked = {"label": act.label, "name": getattr(row, "name", "") or str(row), "effect": act.warning}
            return settings_page(request, section, template="web/settings_confirm.html", **asked)
        return redirect(f"web:settings-{section}")

    return acted
