"""Pages and forms that are made from resources: a list, a row with its acts, and its form."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.models import User
from apps.accounts.quotas import QuotaExceeded
from apps.accounts.resources import NotNeeded, Resource
from apps.record.content import strict_json
from apps.record.errors import InvalidFields, Refusal
from apps.web.roles import refuse
from apps.web.shell import as_reader, page, principal_of, reader_view

MOST_SHOWN = 200  # rows of a list
CODE = {"class": "code", "spellcheck": "false", "autocapitalize": "none", "autocomplete": "off"}


class ObjectField(strict_json.FormField):
    """A JSON object; an empty one if nothing is written."""

    def prepare_value(self, value: Any) -> Any:
        return super().prepare_value(value or None)

    def clean(self, value: Any) -> Any:
        given = super().clean(value)
        if given is not None and not isinstance(given, dict):
            raise forms.ValidationError("Write a JSON object, in braces.")
        return given or {}


def form_field(field: models.Field[Any, Any], **options: Any) -> Any:
    """The field of a form, with a widget by the model field's type."""
    if isinstance(field, models.JSONField):
        return field.formfield(form_class=ObjectField, widget=forms.Textarea({"rows": 3, **CODE}), **options)
    if isinstance(field, models.TextField):
        options = {"widget": forms.Textarea({"rows": 3}), "strip": False, **options}
    elif isinstance(field, models.CharField) and not field.choices:
        options = {"widget": forms.TextInput({"autocomplete": "off"}), **options}
    return field.formfield(**options)


class ResourceForm(forms.ModelForm):  # type: ignore[type-arg]
    """The form of a person's row. What its service refuses stands at the field."""

    class Meta:
        formfield_callback = form_field

    def __init__(self, user: User, *data: Any, **options: Any) -> None:
        super().__init__(*data, **options)
        self.user = user

    def is_saved(self, resource: Resource[Any]) -> bool:
        """Save the row of a valid form. If that is refused, the form says why."""
        try:
            resource.store(self.user.principal, self.instance)
        except (Refusal, QuotaExceeded) as refusal:
            for name, sentence in refusal.violations if isinstance(refusal, InvalidFields) else [("", str(refusal))]:
                self.add_refusal(re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name), sentence)
            return False
        return True

    def add_refusal(self, place: str, sentence: str) -> None:
        """`place`: the path of what is wrong, from the name of a field."""
        name = place.partition(".")[0]
        self.add_error(name if name in self.fields else None, sentence)


@dataclass(frozen=True)
class Pages:
    """The pages of a resource. Their templates are `web/NAME.html`, `web/NOUN.html` and `web/NOUN_edit.html`.

    Attributes:
        new: a row to begin with.
        about: what the page of a row shows besides.
    """

    resource: Resource[Any]
    form: type[ResourceForm]
    new: Callable[[HttpRequest], models.Model]
    about: Callable[[HttpRequest, Any], dict[str, Any]] = lambda request, row: {}

    def find(self, request: HttpRequest, **key: uuid.UUID) -> Any:
        """Raises Http404."""
        found = self.resource.visible_to(principal_of(request)).filter(pk=key[self.resource.noun]).first()
        if found is None:
            raise Http404
        return found

    def list(self, request: HttpRequest) -> HttpResponse:
        rows = self.resource.visible_to(principal_of(request))[:MOST_SHOWN]
        return page(request, f"web/{self.resource.name}.html", rows=list(rows))

    def one(self, request: HttpRequest, **key: uuid.UUID) -> HttpResponse:
        row = self.find(request, **key)
        acts = [act for act in self.resource.acts if act.is_offered(row)]
        noun = self.resource.noun
        about = {noun: row, "acts": acts, "act_address": f"web:{noun}-act", "edit_address": f"web:{noun}-edit"}
        about |= self.about(request, row)
        return page(request, f"web/{self.resource.noun}.html", **about)

    def edit(self, request: HttpRequest, **key: uuid.UUID) -> HttpResponse:
        user = cast("User", request.user)
        refuse(user, request.resolver_match)  # before the form is filled in
        with as_reader(request):
            row = self.find(request, **key) if key else self.new(request)
            initial = {} if key else {"agent": request.GET.get("agent")}
            form = self.form(user, request.POST or None, instance=row, initial=initial)
            if request.method == "POST" and form.is_valid() and form.is_saved(self.resource):
                return redirect(f"web:{self.resource.noun}", form.instance.pk)
            about = {"form": form, self.resource.noun: row if key else None}
            return page(request, f"web/{self.resource.noun}_edit.html", **about)

    def act(self, request: HttpRequest, **key: uuid.UUID) -> HttpResponse:
        """The act that `do` names."""
        row, act = self.find(request, **key), self.resource.act(request.POST.get("do", ""))
        if act is None:
            raise Http404
        try:
            messages.info(request, act.said(act.perform(principal_of(request), row)))
        except NotNeeded as why:
            messages.info(request, str(why))
        except (Refusal, QuotaExceeded) as refusal:
            messages.error(request, str(refusal))
        return redirect(f"web:{self.resource.noun}", row.pk) if row.pk else redirect(f"web:{self.resource.name}")

    def urls(self) -> Sequence[URLPattern]:
        name, noun = self.resource.name, self.resource.noun
        edit = require_http_methods(["GET", "HEAD", "POST"])(login_required(self.edit))
        return [
            path(name, reader_view(self.list), name=name),
            path(f"{name}/new", edit, name=f"new-{noun}"),
            path(f"{name}/<uuid:{noun}>", reader_view(self.one), name=noun),
            path(f"{name}/<uuid:{noun}>/edit", edit, name=f"{noun}-edit"),
            path(f"{name}/<uuid:{noun}>/act", require_POST(login_required(self.act)), name=f"{noun}-act"),
        ]
