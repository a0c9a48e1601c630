"""Pages of resources in the settings: the list is a section, a row's page is its form, and acts lead back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse

from apps.accounts.pages.account import saved
from apps.accounts.resources import Act
from apps.web.resources import MOST_SHOWN, Pages, ResourceForm
from apps.web.settings.sections import SECTIONS, Section, act_view, person_of, private_view, settings_page
from apps.web.shell import View


@dataclass(frozen=True)
class SectionPages[Row: models.Model](Pages[Row]):
    """Templates: `APP/settings_SECTION.html` of the list, `APP/settings_NOUN.html` of the form, or else the kit's.

    Attributes:
        section: by the end of its address.
        icon: of the section, one of `static/icons.svg`.
        about: what the section is, in a sentence.
        line: what the list says under a row's name.
    """

    section: str = ""
    icon: str = ""
    about: str = ""
    line: Callable[[Row], str] = lambda row: ""

    @property
    def names(self) -> dict[str, str]:
        noun = self.resource.noun
        one = f"web:settings-{noun}"
        return {"list": f"web:settings-{self.section}", "new": f"web:settings-new-{noun}", "one": one, "edit": one}

    def list(self, request: HttpRequest) -> HttpResponse:
        rows = self.resource.visible_to(person_of(request).principal)[:MOST_SHOWN]
        lines = [(row, self.line(row)) for row in rows]
        template = [f"{self.folder}/settings_{self.section}.html", "web/settings_resource_list.html"]
        return settings_page(request, self.section, template=template, rows=rows, lines=lines, pages=self)

    def show_form(self, request: HttpRequest, form: ResourceForm, **more: Any) -> HttpResponse:
        row = form.instance
        is_new = row._state.adding
        title = f"New {self.resource.noun.replace('_', ' ')}" if is_new else f"Change {row}"
        acts = [] if is_new else [(act, self._address(act, row)) for act in self.resource.acts if act.is_offered(row)]
        about = {"form": form, "row": None if is_new else row, "acts": acts, "pages": self, "section_title": title}
        template = [f"{self.folder}/settings_{self.resource.noun}.html", "web/settings_resource.html"]
        return settings_page(request, self.section, form, template=template, **about, **more)

    def _address(self, act: Act[Row], row: Row) -> str:
        return reverse(f"{self.names['one']}-{act.name}", args=[row.pk])

    def saved(self, request: HttpRequest, row: Row, *, is_new: bool) -> HttpResponse:
        return saved(request, self.section)

    def act_view(self, act: Act[Row]) -> View:
        """The address of an act. It leads back to the list."""
        return act_view(self.section, self.resource, act)

    def urls(self) -> Sequence[URLPattern]:
        """All addresses. The settings list the section from then on, under the resource's title."""
        noun = self.resource.noun
        if noun == self.section:
            raise ImproperlyConfigured(f"The section “{noun}” needs another name than one of its rows.")
        SECTIONS.setdefault(self.section, Section(self.resource.title, self.icon, self.folder))
        place = f"settings/{self.section}"
        return [
            path(place, private_view(self.list), name=f"settings-{self.section}"),
            path(f"{place}/new", private_view(self.edit), name=f"settings-new-{noun}"),
            *self.row_urls(place),
        ]

    def row_urls(self, place: str) -> Sequence[URLPattern]:
        """The addresses of a row's form, if people write rows, and of its acts, below those of its list."""
        noun = self.resource.noun
        kind = "uuid" if isinstance(self.resource.model._meta.pk, models.UUIDField) else "int"
        row = f"{place}/<{kind}:{noun}>"
        acts = self.resource.acts
        form = [path(row, private_view(self.edit), name=f"settings-{noun}")] if self.resource.save else []
        return [
            *form,
            *(path(f"{row}/{act.name}", self.act_view(act), name=f"settings-{noun}-{act.name}") for act in acts),
        ]
