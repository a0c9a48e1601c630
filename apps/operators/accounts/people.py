"""People and groups."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin import display
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.db.models import Count, Model, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm

from apps.accounts.models import ApiKey, User, Workspace
from apps.operators.accounts.forms import NewUserForm, UserForm
from console import cells
from console.cells import Tone

RIGHTS = ("is_active", "is_staff", "is_superuser", "groups", "user_permissions")


def is_superuser(request: HttpRequest) -> bool:
    return bool(request.user.is_active and getattr(request.user, "is_superuser", False))


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]
    """People. They are switched off rather than deleted: what they did stays in the record."""

    form = UserForm
    add_form = NewUserForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("email", "name", "state", "is_staff", "keys", "seen")
    list_filter = ("is_active", "is_staff", "groups")
    search_fields = ("email", "name")
    ordering = ("email",)
    readonly_fields = ("seen", "joined", "workspace", "keys")
    filter_horizontal = ("groups", "user_permissions")
    fieldsets = (
        (None, {"fields": (("email", "name"), "password")}),
        ("Rights", {"fields": (("is_active", "is_staff", "is_superuser"), "groups", "user_permissions")}),
        ("Record", {"fields": (("workspace", "keys"), ("joined", "seen"))}),
    )
    add_fieldsets = ((None, {"fields": ("email", "name", "usable_password", "password1", "password2")}),)

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        people: QuerySet[User] = super().get_queryset(request)
        return people.select_related("personal_workspace").annotate(key_count=Count("api_keys"))

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Only a superuser changes one, password included."""
        allowed: bool = super().has_change_permission(request, obj)
        return allowed and (obj is None or not obj.is_superuser or is_superuser(request))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Nobody gives rights who does not have them all."""
        fields = super().get_readonly_fields(request, obj)
        return fields if is_superuser(request) else (*fields, *RIGHTS[1:])

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if not change:
            Workspace.open_for(obj)

    @display(description="state", ordering="is_active")
    def state(self, user: User) -> SafeString:
        return cells.state("active", Tone.DONE) if user.is_active else cells.state("switched off", Tone.STOPPED)

    @display(description="API keys", ordering="key_count")
    def keys(self, user: Any) -> SafeString:
        return cells.number(user.key_count, ApiKey, user__id__exact=user.pk)

    @display(description="last sign-in", ordering="last_login")
    def seen(self, user: User) -> SafeString:
        return cells.moment(user.last_login)

    @display(description="joined", ordering="date_joined")
    def joined(self, user: User) -> SafeString:
        return cells.moment(user.date_joined)

    @display(description="personal workspace")
    def workspace(self, user: User) -> SafeString:
        return cells.link(user.personal_workspace, cells.page_url(Workspace, user.personal_workspace.pk))


admin.site.unregister(Group)


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):
    """Groups of people: whom an agent's access may name, and what operators may do."""

    list_display = ("name", "people")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        return super().get_queryset(request).annotate(people_count=Count("user"))

    @display(description="people", ordering="people_count")
    def people(self, group: Any) -> SafeString:
        return cells.number(group.people_count, User, groups__id__exact=group.pk)
