"""Pages and forms that are made from resources: a list, a row with its acts, and its form."""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ObjectNotUpdated
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.requests.quotas import QuotaExceeded
from apps.accounts.resources import Act, NotNeeded, Resource
from apps.record.content import strict_json
from apps.record.errors import InvalidFields, Refusal
from apps.record.projects import projects_of
from apps.web.roles import refuse
from apps.web.shell import as_reader, page, principal_of, reader_view

MOST_SHOWN = 200  # rows of a list
CODE = {"class": "code", "spellcheck": "false", "autocapitalize": "none", "autocomplete": "off"}


class ObjectField(strict_json.FormField):
    """A JSON object; an empty one if nothing is written."""

    empty_values = [None, ""]  # `{}` is what the person wants: a form would keep a default in its place

    def prepare_value(self, value: Any) -> Any:
        return super().prepare_value(value or None)

    def clean(self, value: Any) -> Any:
        given = super().clean(value)
        if given is not None and not isinstance(given, dict):
            raise forms.ValidationError("Write a JSON object, in braces.")
        return given or {}


class MinutesField(forms.FloatField):
    """A number of seconds, as minutes."""

    def prepare_value(self, value: Any) -> Any:
        return f"{value / 60:g}" if isinstance(value, int) else value

    def clean(self, value: Any) -> int | None:
        minutes = super().clean(value)
        return None if minutes is None else round(minutes * 60)


class LocalTimeField(forms.DateTimeField):
    """A time as it was typed, for a zone that the form knows."""

    def to_python(self, value: Any) -> datetime.datetime | None:
        with timezone.override(datetime.UTC):
            return super().to_python(value)


class ProjectField(forms.TypedChoiceField):
    """A project that the person sees, or none."""

    def __init__(self, none: str = "No project", **options: Any) -> None:
        super().__init__(coerce=uuid.UUID, empty_value=None, required=False, **options)
        self.none = none

    def offer(self, principal: Principal) -> bool:
        """Fill the choices. False if there is no project."""
        found = projects_of(principal)
        self.choices = [("", self.none), *((str(key), name) for key, name in found)]
        return bool(found)


def form_field(field: models.Field[Any, Any], **options: Any) -> Any:
    """The field of a form, with a widget by the model field's type."""
    if isinstance(field, models.JSONField):
        return field.formfield(form_class=ObjectField, widget=forms.Textarea({"rows": 3, **CODE}), **options)
    if isinstance(field, models.TextField):
        options = {"widget": forms.Textarea({"rows": 3}), "strip": False, **options}
    elif isinstance(field, models.DateTimeField):
        options = {"widget": forms.DateTimeInput({"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"), **options}
    elif isinstance(field, models.DateField):
        options = {"widget": forms.DateInput({"type": "date"}, format="%Y-%m-%d"), **options}
    elif field.choices and not field.blank:
        options = {"initial": field.default if field.has_default() else field.choices[0][0], **options}
    elif isinstance(field, models.CharField):
        options = {"widget": forms.TextInput({"autocomplete": "off"}), **options}
    return field.formfield(**options)


class RefusableForm(forms.BaseForm):
    """A form that says at its fields why its act was refused."""

    def add_refusal(self, refusal: Refusal | QuotaExceeded) -> None:
        if isinstance(refusal, InvalidFields):
            for place, sentence in refusal.violations:
                self.add_error(self.field_at(*place.split(".")), sentence)
        else:
            self.add_error(self.field_at(getattr(refusal, "field", "")), str(refusal))

    def field_at(self, name: str, *inner: str) -> str | None:
        """The field that shows what is wrong at a path of the client API; None for the head of the form."""
        snake = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
        return snake if snake in self.fields else None


class ResourceForm(RefusableForm, forms.ModelForm):  # type: ignore[type-arg]
    """The form of a person's row. What its service refuses stands at the field."""

    class Meta:
        formfield_callback = form_field

    def __init__(self, user: User, *data: Any, **options: Any) -> None:
        super().__init__(*data, **options)
        self.user = user
        if self.instance._state.adding:  # an empty value of a new row must not hide the field's own
            self.initial = {name: value for name, value in self.initial.items() if value not in ("", None)}
        for field in self.fields.values():
            if isinstance(field, forms.ModelChoiceField):
                rows: Any = field.queryset
                field.queryset = rows.visible_to(user.principal)
        for name, field in list(self.fields.items()):
            if isinstance(field, ProjectField) and not field.offer(user.principal):
                del self.fields[name]

    def is_saved(self, resource: Resource[Any]) -> bool:
        """Save the row of a valid form. If that is refused, the form says why."""
        try:
            resource.store(self.user.principal, self.instance)
        except ObjectNotUpdated:
            raise Http404 from None
        except (Refusal, QuotaExceeded) as refusal:
            self.add_refusal(refusal)
            return False
        return True


def words_of(refusal: Refusal | QuotaExceeded) -> str:
    """Why something was refused, for a person who has no fields before them."""
    return " ".join(said for _, said in refusal.violations) if isinstance(refusal, InvalidFields) else str(refusal)


def do(request: HttpRequest, act: Act[Any], row: models.Model) -> None:
    """Perform an act of the person's, and tell them on the next page."""
    try:
        messages.info(request, act.said(act.perform(principal_of(request), row)))
    except NotNeeded as why:
        messages.info(request, str(why))
    except (Refusal, QuotaExceeded) as refusal:
        messages.error(request, words_of(refusal))


@dataclass(frozen=True)
class Pages[Row: models.Model]:
    """The pages of a resource: `APP/NAME.html`, `APP/NOUN.html` and `APP/NOUN_edit.html`, each with `row` and `pages`.

    Attributes:
        new: a row to begin with.
        context: what else the template of a row gets.
        form_context: what else the template of its form gets.
        place: the beginning of their addresses, if it is not the name of the resource.
    """

    resource: Resource[Row]
    form: type[ResourceForm] = ResourceForm
    new: Callable[[HttpRequest], Row] | None = None
    context: Callable[[HttpRequest, Row], dict[str, Any]] = lambda request, row: {}
    form_context: Callable[[Row], dict[str, Any]] = lambda row: {}
    place: str = ""

    @property
    def folder(self) -> str:
        """Of the templates."""
        return self.resource.model._meta.app_label

    @property
    def names(self) -> dict[str, str]:
        """The names of the addresses."""
        noun = self.resource.noun
        own = {"one": noun, "new": f"new-{noun}", "edit": f"{noun}-edit", "act": f"{noun}-act"}
        return {"list": f"web:{self.resource.name}", **{key: f"web:{name}" for key, name in own.items()}}

    def find(self, request: HttpRequest, **key: uuid.UUID) -> Row:
        """Raises NotFound."""
        return self.resource.find(principal_of(request), key[self.resource.noun])

    def list(self, request: HttpRequest) -> HttpResponse:
        rows = self.resource.visible_to(principal_of(request))[:MOST_SHOWN]
        return page(request, f"{self.folder}/{self.resource.name}.html", rows=rows, pages=self)

    def one(self, request: HttpRequest, **key: uuid.UUID) -> HttpResponse:
        return self.show(request, self.find(request, **key))

    def show(self, request: HttpRequest, row: Row, **more: Any) -> HttpResponse:
        """A row's page."""
        acts = [act for act in self.resource.acts if act.is_offered(row)]
        context = {"row": row, "pages": self, "acts": acts, **self.context(request, row), **more}
        return page(request, f"{self.folder}/{self.resource.noun}.html", **context)

    def edit(self, request: HttpRequest, **key: uuid.UUID) -> HttpResponse:
        """The form of a row, or of a new one; `?agent=` names an agent to begin with."""
        user = cast("User", request.user)
        refuse(user, request.resolver_match)  # before the form is filled in
        with as_reader(request):
            row = self.find(request, **key) if key else self.new(request) if self.new else self.resource.model()
            initial = {} if key else {"agent": request.GET.get("agent")}
            form = self.form(user, request.POST or None, instance=row, initial=initial)
            if request.method == "POST" and form.is_valid() and form.is_saved(self.resource):
                return self.saved(request, row, is_new=not key)
            return self.show_form(request, form)

    def show_form(self, request: HttpRequest, form: ResourceForm, **more: Any) -> HttpResponse:
        """The page of a form; of a new row without `row`."""
        row = form.instance
        is_new = row._state.adding
        context = {"form": form, "row": None if is_new else row, "pages": self, **self.form_context(row), **more}
        return page(request, f"{self.folder}/{self.resource.noun}_edit.html", **context)

    def saved(self, request: HttpRequest, row: Row, *, is_new: bool) -> HttpResponse:
        return redirect(self.names["one"], row.pk)

    def act(self, request: HttpRequest, **key: uuid.UUID) -> HttpResponse:
        """The act that `do` names."""
        row, act = self.find(request, **key), self.resource.act(request.POST.get("do", ""))
        if act is None:
            raise Http404
        do(request, act, row)
        return redirect(self.names["one"], row.pk) if row.pk else redirect(self.names["list"])

    def urls(self) -> Sequence[URLPattern]:
        name, noun = self.resource.name, self.resource.noun
        edit = require_http_methods(["GET", "HEAD", "POST"])(never_cache(login_required(self.edit)))
        act = require_POST(never_cache(login_required(sensitive_post_parameters()(self.act))))
        place = self.place or name
        return [
            path(place, reader_view(self.list), name=name),
            path(f"{place}/new", edit, name=f"new-{noun}"),
            path(f"{place}/<uuid:{noun}>", reader_view(self.one), name=noun),
            path(f"{place}/<uuid:{noun}>/edit", edit, name=f"{noun}-edit"),
            path(f"{place}/<uuid:{noun}>/act", act, name=f"{noun}-act"),
        ]
