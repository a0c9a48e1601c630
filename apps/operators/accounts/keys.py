"""API keys: issued here, shown once, revoked rather than deleted."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import display
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin

from apps.accounts.models import ApiKey, User
from apps.operators.accounts.forms import ApiKeyForm
from apps.operators.accounts.people import is_superuser
from console import cells
from console.cells import Tone


@admin.register(ApiKey)
class ApiKeyAdmin(ModelAdmin):
    form = ApiKeyForm
    list_display = ("key", "name", "person", "state", "used", "expires", "created")
    list_display_links = ("name",)
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    list_select_related = ("user",)
    search_fields = ("prefix", "name", "user__email")
    ordering = ("-created_at",)
    actions = ("revoke",)
    autocomplete_fields = ("user",)
    fields = ("key", "state", "person", "name", "scopes", "expires_at", "used", "created")
    add_fieldsets = ((None, {"fields": ("user", "name", "scopes", "expires_at")}),)
    readonly_fields = ("key", "state", "person", "used", "created")

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.readonly_fields if obj else ()

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("accounts.change_apikey")

    def formfield_for_foreignkey(self, field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """A key is its user: nobody but a superuser makes one of a superuser."""
        if not is_superuser(request):
            kwargs["queryset"] = User.objects.filter(is_superuser=False)
        return super().formfield_for_foreignkey(field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        issued, obj.text = ApiKey.issue(obj.user, obj.name, scopes=obj.scopes)  # type: ignore[attr-defined]
        ApiKey.objects.filter(pk=issued.pk).update(expires_at=obj.expires_at)
        obj.pk, obj.prefix = issued.pk, issued.prefix

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        """The one page that shows the key: the answer to the form itself, so that it is kept nowhere on its way."""
        page = {**self.admin_site.each_context(request), "title": "Copy the key now", "opts": self.opts, "key": obj}
        headers = {"Cache-Control": "no-store"}
        return TemplateResponse(request, "admin/accounts/key_issued.html", page, headers=headers)

    @admin.action(description="Revoke", permissions=["revoke"])
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        good = list(keys.filter(revoked_at=None))
        for key in good:
            key.revoke()
            self.log_change(request, key, "Revoked.")
        many = "1 key was" if len(good) == 1 else f"{len(good)} keys were"
        messages.success(request, f"{many} revoked. Nothing can be done with a revoked key any more.")

    @display(description="key", ordering="prefix")
    def key(self, key: ApiKey) -> SafeString:
        return format_html("<code>{}</code>", key)

    @display(description="user", ordering="user__email")
    def person(self, key: ApiKey) -> SafeString:
        return cells.link(key.user, cells.page_url(User, key.user_id))

    @display(description="state")
    def state(self, key: ApiKey) -> SafeString:
        if key.revoked_at:
            return cells.state("revoked", Tone.FAILED)
        if key.expires_at and key.expires_at <= timezone.now():
            return cells.state("expired", Tone.STOPPED)
        return cells.state("good", Tone.DONE) if key.user.is_active else cells.state("user off", Tone.STOPPED)

    @display(description="last used", ordering="last_used_at")
    def used(self, key: ApiKey) -> SafeString:
        return cells.moment(key.last_used_at)

    @display(description="expires", ordering="expires_at")
    def expires(self, key: ApiKey) -> SafeString:
        return cells.moment(key.expires_at)

    @display(description="created", ordering="created_at")
    def created(self, key: ApiKey) -> SafeString:
        return cells.moment(key.created_at)
