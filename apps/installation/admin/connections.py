"""Admin pages of model connections: their prices, and removal. They never show a key."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import admin
from django.contrib.admin import display
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminDecimalFieldWidget, UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from apps.agents.models import Agent
from apps.installation.current import environment_endpoint
from apps.installation.models import ModelConnection
from parley.faces import cells
from parley.faces.admin import ConsoleAdmin, MenuItem, column, page_link, time_cell
from parley.faces.cells import Tone
from parley.faces.fields import RowsField

KNOWN_MODELS = "known-models"  # id of the list of suggestions


class OfferRow(forms.Form):
    name = forms.CharField(
        label="Model", max_length=200, widget=UnfoldAdminTextInputWidget(attrs={"list": KNOWN_MODELS})
    )
    input_price = forms.FloatField(
        label="Price of a million input tokens",
        required=False,
        min_value=0,
        max_value=1_000_000,
        widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "any"}),
    )
    output_price = forms.FloatField(
        label="Price of a million output tokens",
        required=False,
        min_value=0,
        max_value=1_000_000,
        widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "any"}),
    )
    is_choice = forms.BooleanField(
        label="People may choose it for a conversation", required=False, widget=UnfoldBooleanWidget
    )


class ConnectionForm(forms.ModelForm):  # type: ignore[type-arg]
    """What the form in people's settings does not have. That one tests a connection before it is saved."""

    offers = RowsField(
        OfferRow,
        noun="a model",
        label="Models",
        help_text=f"Prices in {settings.CURRENCY} give the cost of each run. Models without a row can be used too.",
    )

    class Meta:
        model = ModelConnection
        fields = ("offers",)


@admin.register(ModelConnection)
class ModelConnectionAdmin(ConsoleAdmin):
    menu = MenuItem("Installation", 3, "psychology")
    form = ConnectionForm
    checked = time_cell("checked_at", "tested")
    added = column("added by", lambda row: row.added_by or cells.NOTHING)
    list_display = (page_link("name"), "provider", "base_url", "model", "default", "state", checked)
    list_display_links = None
    search_fields = ("name", "base_url")
    record = ("provider", "base_url", "model", "slug", "default", "state", "agents", added)
    readonly_fields: ClassVar[Any] = record
    fieldsets = ((None, {"fields": record}), ("Models and prices", {"fields": ("offers",)}))
    change_form_after_template = "admin/installation/known_models.html"
    list_before_template = "admin/installation/environment_model.html"

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        return redirect("web:settings-connect-model")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        endpoint, is_used = environment_endpoint(), not ModelConnection.objects.exists()
        about = {"environment": endpoint, "is_used": is_used, **(extra_context or {})}
        return super().changelist_view(request, about)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[ModelConnection]) -> None:
        for row in queryset:
            row.delete()

    @display(description="default", boolean=True)
    def default(self, row: ModelConnection) -> bool:
        return row.is_default

    @display(description="state")
    def state(self, row: ModelConnection) -> SafeString:
        if row.checked_at is None:
            return cells.state("Not tested", Tone.QUEUED)
        return cells.state("Fails", Tone.FAILED) if row.problem else cells.state("Works", Tone.DONE)

    @display(description="agents that name it")
    def agents(self, row: ModelConnection) -> SafeString | str:
        found = Agent.objects.filter(current_version__content__model__endswith=f"@{row.slug}").order_by("name")
        links = [(cells.link(one.name, cells.page_url(Agent, one.pk)),) for one in found]
        names = format_html_join(", ", "{}", links) if links else "none"
        return format_html("{}. All agents that name no model use it.", names) if row.is_default else names
