"""Admin pages of people, groups, workspaces and API keys."""

from __future__ import annotations

import datetime
from typing import Any, ClassVar

from django import forms
from django.apps import apps
from django.contrib import admin
from django.contrib.admin import display
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import ValidationError
from django.db.models import Count, Model, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from apps.accounts import audit, revocation
from apps.accounts.admin.invitations import Invitations
from apps.accounts.audit_models import AuditAction
from apps.accounts.keys import KEYS_OF_PEOPLE, REVOKE
from apps.accounts.models import ApiKey, User, Workspace
from apps.accounts.people.erasure import ERASE, PEOPLE
from apps.accounts.principals import SCOPES
from apps.accounts.resources import NotNeeded
from apps.agents.models import Agent
from apps.conversations.sessions import deletion
from apps.limits.admin import limits_cell
from apps.limits.models import Whose
from apps.operators.actions import ActingAdmin
from apps.operators.bulk import Doing, RowAction, register
from apps.record.models import Context
from parley.db.sql import write_transaction
from parley.faces import cells
from parley.faces.admin import LoggedAdmin, MenuItem, column, count_cell, related_cell, time_cell
from parley.faces.cells import Tone
from parley.faces.fields import WordsField


class ApiKeyForm(forms.ModelForm):  # type: ignore[type-arg]
    scopes = WordsField(
        required=False,
        help_text=f"What the key may do: {', '.join(SCOPES)}. One per line. Empty: everything.",
    )

    agents = WordsField(
        required=False, help_text="Slugs of the only agents that there are for the key. One per line. Empty: all."
    )

    class Meta:
        model = ApiKey
        fields = ("user", "name", "scopes", "agents", "expires_at")

    def clean_agents(self) -> list[str]:
        slugs: list[str] = self.cleaned_data["agents"]
        known = set(Agent.objects.filter(slug__in=slugs).values_list("slug", flat=True))
        if unknown := [slug for slug in slugs if slug not in known]:
            raise ValidationError(f"There is no agent {', '.join(unknown)}.")
        return slugs

    def clean_scopes(self) -> list[str]:
        scopes: list[str] = self.cleaned_data["scopes"]
        if unknown := [scope for scope in scopes if scope not in SCOPES]:
            raise ValidationError(f"Unknown scope: {', '.join(unknown)}. Available scopes: {', '.join(SCOPES)}.")
        return scopes

    def clean_expires_at(self) -> datetime.datetime | None:
        expires: datetime.datetime | None = self.cleaned_data["expires_at"]
        if "expires_at" in self.changed_data and expires is not None and expires <= timezone.now():
            raise ValidationError("This time is in the past. Choose a later one, or revoke the key.")
        return expires


class UndeletableAdmin(LoggedAdmin):
    """Rows that the record refers to."""

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class SecretAdmin(LoggedAdmin):
    """The secret of a new row is shown once, as the form's own response: it is stored nowhere."""

    def secret_of(self, row: Any) -> tuple[str, str]:
        """It, and what there is to know about it."""
        raise NotImplementedError

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        secret, hint = self.secret_of(obj)
        page = {**self.admin_site.each_context(request), "title": "Copy the secret", "opts": self.opts, "row": obj}
        page |= {"secret": secret, "hint": hint, "list_url": cells.list_url(self.model)}
        return TemplateResponse(request, "admin/accounts/secret.html", page, headers={"Cache-Control": "no-store"})


RIGHTS = ("is_active", "is_staff", "is_superuser", "groups", "user_permissions")


def is_superuser(request: HttpRequest) -> bool:
    return bool(request.user.is_active and getattr(request.user, "is_superuser", False))


class RightsLogged(LoggedAdmin):
    """Tells the audit which rights were given and taken: these are no secrets."""

    def construct_change_message(self, request: HttpRequest, form: Any, formsets: Any, add: bool = False) -> Any:
        message = super().construct_change_message(request, form, formsets, add)
        given, taken = changed_rights(form)
        if message and (given or taken):
            next(iter(message[0].values())).update({"given": given, "taken": taken})
        return message


def changed_rights(form: Any) -> tuple[list[str], list[str]]:
    """The names of the rights that a form of a person or a group gives and takes."""
    given, taken = set[str](), set[str]()
    for name in (*RIGHTS, "permissions"):
        if name in form.changed_data:
            before, after = (_right_names(name, values.get(name)) for values in (form.initial, form.cleaned_data))
            given |= after - before
            taken |= before - after
    return sorted(given), sorted(taken)


def _right_names(field: str, value: Any) -> set[str]:
    if isinstance(value, bool) or value is None:
        return {field} if value else set()
    return {one.codename if isinstance(one, Permission) else f"group {one}" for one in value}


def _disable(person: User, doing: Doing) -> str:
    if person == doing.operator:
        raise NotNeeded("You cannot disable yourself.")
    if person.is_superuser and not doing.operator.is_superuser:
        raise ValidationError("Only superusers disable superusers.")
    if not person.is_active:
        raise NotNeeded("They are disabled already.")
    with write_transaction():
        revocation.disable(person)
        audit.record(AuditAction.USER_CHANGED, actor=doing.operator, object=person, details={"taken": ["is_active"]})
    return "Disabled."


DISABLE = register(
    RowAction(
        "person.disable", "Disable", User, "accounts.change_user", _disable, records=True, icon="person_off",
        question="Disable this person?", is_offered=lambda person: person.is_active,
        effect="Their keys, sessions and open connections end within seconds. Nothing is deleted.",
    )
)  # fmt: skip


@admin.register(User)
class UserAdmin(Invitations, RightsLogged, ActingAdmin, UndeletableAdmin, DjangoUserAdmin, LoggedAdmin):  # type: ignore[type-arg]
    menu = MenuItem("People and access", 1, "person")
    resource, acts = PEOPLE, (DISABLE, ERASE)
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    keys = count_cell("API keys", ApiKey, "user__id__exact", lambda user: user.key_count, ordering="key_count")
    seen = time_cell("last_login", "last sign-in")
    joined = time_cell("date_joined", "joined")
    workspace = related_cell("personal_workspace", "personal workspace")
    list_display = ("email", "name", "state", "is_staff", keys, seen)
    list_filter = ("is_active", "is_staff", "groups")
    search_fields = ("email", "name")
    ordering = ("email",)
    readonly_fields: ClassVar[Any] = (seen, joined, workspace, keys)
    filter_horizontal = ("groups", "user_permissions")
    fieldsets: ClassVar[Any] = (
        (None, {"fields": (("email", "name"), "password")}),
        ("Permissions", {"fields": (("is_active", "is_staff", "is_superuser"), "groups", "user_permissions")}),
        ("Account", {"fields": ((workspace, keys), (joined, seen))}),
    )
    add_fieldsets = ((None, {"fields": ("email", "name", "usable_password", "password1", "password2")}),)

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        people: QuerySet[User] = super().get_queryset(request)
        return people.select_related("personal_workspace").annotate(key_count=Count("api_keys"))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Only superusers change superusers, passwords included."""
        allowed: bool = super().has_change_permission(request, obj)
        return allowed and (obj is None or not obj.is_superuser or is_superuser(request))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Only superusers give rights."""
        fields = super().get_readonly_fields(request, obj)
        return fields if is_superuser(request) else (*fields, *RIGHTS[1:])

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if not change:
            Workspace.open_for(obj)

    @display(description="state", ordering="is_active")
    def state(self, user: User) -> SafeString:
        return cells.state("active", Tone.DONE) if user.is_active else cells.state("inactive", Tone.STOPPED)


admin.site.unregister(Group)
for _label in (
    "account",
    "allauth_idp_oidc",
    "mfa",
    "socialaccount",
    "usersessions",
):  # secrets of sign-ins: people see their own
    for _model in filter(admin.site.is_registered, apps.get_app_config(_label).get_models()):
        admin.site.unregister(_model)


@admin.register(Group)
class GroupAdmin(RightsLogged, DjangoGroupAdmin, LoggedAdmin):
    menu = MenuItem("People and access", 2, "group")
    people = count_cell("people", User, "groups__id__exact", lambda group: group.people_count, ordering="people_count")
    list_display = ("name", people)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        return super().get_queryset(request).annotate(people_count=Count("user"))


@admin.register(ApiKey)
class ApiKeyAdmin(SecretAdmin, ActingAdmin, UndeletableAdmin):
    menu = MenuItem("People and access", 4, "key")
    resource, acts = KEYS_OF_PEOPLE, (REVOKE,)
    limits = limits_cell(Whose.KEY)
    form = ApiKeyForm
    key = column("key", lambda key: format_html("<code>{}</code>", key), "prefix")
    person = related_cell("user", ordering="user__email")
    used, expires, created = map(time_cell, ("last_used_at", "expires_at", "created_at"))
    list_display = (key, "name", person, "state", used, expires, created)
    list_display_links = ("name",)
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    select_related = ("user",)
    search_fields = ("prefix", "name", "user__email")
    ordering = ("-created_at",)
    autocomplete_fields = ("user",)
    fields = (
        key, "state", person, "name", "scopes", "agents", "expires_at", used, "last_used_from", "public_key", "made_by",
        limits, created,
    )  # fmt: skip
    add_fieldsets = ((None, {"fields": ("user", "name", "scopes", "agents", "expires_at")}),)
    readonly_fields = (key, "state", person, used, "last_used_from", "public_key", "made_by", limits, created)

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.readonly_fields if obj else ()

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Only superusers change the keys of superusers."""
        allowed: bool = super().has_change_permission(request, obj)
        return allowed and (obj is None or not obj.user.is_superuser or is_superuser(request))

    def formfield_for_foreignkey(self, field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Only superusers issue keys for superusers: a key has its user's rights."""
        if not is_superuser(request):
            kwargs["queryset"] = User.objects.filter(is_superuser=False)
        return super().formfield_for_foreignkey(field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        issued, obj.text = ApiKey.issue(obj.user, obj.name, scopes=obj.scopes, agents=obj.agents)
        ApiKey.objects.filter(pk=issued.pk).update(expires_at=obj.expires_at)
        obj.pk, obj.prefix = issued.pk, issued.prefix

    def secret_of(self, row: ApiKey) -> tuple[str, str]:
        uses = "Programs send it as Authorization: Bearer KEY."
        return row.text, f"{uses} Anyone who has it acts as {row.user}; revoke it when it is lost."

    @display(description="state")
    def state(self, key: ApiKey) -> SafeString:
        if key.revoked_at:
            why = f": {key.get_revoked_because_display()}" if key.revoked_because else ""
            return cells.state(f"revoked{why}", Tone.FAILED)
        if key.expires_at and key.expires_at <= timezone.now():
            return cells.state("expired", Tone.STOPPED)
        return cells.state("active", Tone.DONE) if key.user.is_active else cells.state("user inactive", Tone.STOPPED)


@admin.register(Workspace)
class WorkspaceAdmin(UndeletableAdmin):
    """A page counts the sessions that retention would delete now."""

    menu = MenuItem("People and access", 3, "workspaces")
    limits = limits_cell(Whose.WORKSPACE)
    person = related_cell("personal_of", "personal workspace of", ordering="personal_of__email")
    keys = count_cell("API keys", ApiKey, "workspace__id__exact", lambda workspace: workspace.api_keys.count())
    created = time_cell("created_at")
    overdue = count_cell(
        "sessions due for deletion",
        Context,
        "workspace__id__exact",
        lambda workspace: workspace.overdue_count,
        ordering="overdue_count",
    )
    list_display = ("name", person, created, "retention_days", "cold_after_days", overdue)
    list_select_related = ("personal_of",)
    search_fields = ("name", "personal_of__email")
    ordering = ("name",)
    fields = ("name", person, keys, created, "retention_days", "cold_after_days", limits, overdue)
    readonly_fields = (person, keys, created, limits, overdue)

    def get_queryset(self, request: HttpRequest) -> Any:
        expired = deletion.expired_sessions().order_by().filter(workspace=OuterRef("pk")).values("workspace")
        number = Coalesce(Subquery(expired.annotate(number=Count("pk")).values("number")), 0)
        return super().get_queryset(request).annotate(overdue_count=number)
