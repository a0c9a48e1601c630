"""Admin pages of people, groups, workspaces, API keys and the audit log."""

from __future__ import annotations

import datetime
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import display
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db.models import Count, Model, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from apps.accounts.models import ApiKey, AuditLine, User, Workspace
from apps.accounts.principals import SCOPES
from apps.features.sessions import deletion
from apps.operators.installation.invitations import Invitations
from apps.record.models import Context
from console import cells
from console.admin import ReadOnlyAdmin, column, count_cell, json_cell, related_cell, time_cell
from console.cells import Tone
from console.fields import WordsField


def clean_address(form: forms.ModelForm) -> str:  # type: ignore[type-arg]
    """In lower case. Raises ValidationError if the address is taken."""
    address = str(form.cleaned_data["email"]).strip().lower()
    if User.objects.filter(email__iexact=address).exclude(pk=form.instance.pk).exists():
        raise ValidationError("A user with this e-mail address already exists.")
    return address


class NewUserForm(UserCreationForm):
    class Meta:
        model = User
        fields = ("email", "name")

    def clean_email(self) -> str:
        return clean_address(self)


class UserForm(UserChangeForm):
    class Meta:
        model = User
        fields = "__all__"

    def clean_email(self) -> str:
        return clean_address(self)


class ApiKeyForm(forms.ModelForm):  # type: ignore[type-arg]
    scopes = WordsField(
        required=False,
        help_text=f"What the key may do: {', '.join(SCOPES)}. One per line. Empty: everything.",
    )

    class Meta:
        model = ApiKey
        fields = ("user", "name", "scopes", "expires_at")

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


class UndeletableAdmin(ModelAdmin):
    """Rows that the record refers to."""

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


RIGHTS = ("is_active", "is_staff", "is_superuser", "groups", "user_permissions")


def is_superuser(request: HttpRequest) -> bool:
    return bool(request.user.is_active and getattr(request.user, "is_superuser", False))


@admin.register(User)
class UserAdmin(Invitations, UndeletableAdmin, DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]
    form = UserForm
    add_form = NewUserForm
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


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):
    people = count_cell("people", User, "groups__id__exact", lambda group: group.people_count, ordering="people_count")
    list_display = ("name", people)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        return super().get_queryset(request).annotate(people_count=Count("user"))


@admin.register(ApiKey)
class ApiKeyAdmin(UndeletableAdmin):
    form = ApiKeyForm
    key = column("key", lambda key: format_html("<code>{}</code>", key), "prefix")
    person = related_cell("user", ordering="user__email")
    used, expires, created = map(time_cell, ("last_used_at", "expires_at", "created_at"))
    list_display = (key, "name", person, "state", used, expires, created)
    list_display_links = ("name",)
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    list_select_related = ("user",)
    search_fields = ("prefix", "name", "user__email")
    ordering = ("-created_at",)
    actions = ("revoke",)
    autocomplete_fields = ("user",)
    fields = (key, "state", person, "name", "scopes", "expires_at", used, created)
    add_fieldsets = ((None, {"fields": ("user", "name", "scopes", "expires_at")}),)
    readonly_fields = (key, "state", person, used, created)

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.readonly_fields if obj else ()

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("accounts.change_apikey")

    def formfield_for_foreignkey(self, field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Only superusers issue keys for superusers: a key has its user's rights."""
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
        """Shows the key once, as the form's own response: the key is stored nowhere."""
        page = {**self.admin_site.each_context(request), "title": "Copy the API key", "opts": self.opts, "key": obj}
        headers = {"Cache-Control": "no-store"}
        return TemplateResponse(request, "admin/accounts/key_issued.html", page, headers=headers)

    @admin.action(description="Revoke", permissions=["revoke"])
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        good = list(keys.filter(revoked_at=None))
        for key in good:
            key.revoke()
            self.log_change(request, key, "Revoked.")
        many = "1 key was" if len(good) == 1 else f"{len(good)} keys were"
        messages.success(request, f"{many} revoked. Revoked keys stop working at once.")

    @display(description="state")
    def state(self, key: ApiKey) -> SafeString:
        if key.revoked_at:
            return cells.state("revoked", Tone.FAILED)
        if key.expires_at and key.expires_at <= timezone.now():
            return cells.state("expired", Tone.STOPPED)
        return cells.state("active", Tone.DONE) if key.user.is_active else cells.state("user inactive", Tone.STOPPED)


@admin.register(Workspace)
class WorkspaceAdmin(UndeletableAdmin):
    """A page counts the sessions that retention would delete now."""

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
    fields = ("name", person, keys, created, "retention_days", "cold_after_days", overdue)
    readonly_fields = (person, keys, created, overdue)

    def get_queryset(self, request: HttpRequest) -> Any:
        expired = deletion.expired_sessions().order_by().filter(workspace=OuterRef("pk")).values("workspace")
        number = Coalesce(Subquery(expired.annotate(number=Count("pk")).values("number")), 0)
        return super().get_queryset(request).annotate(overdue_count=number)


def audited(line: AuditLine) -> SafeString:
    """The id of what the act was done to, with a link to its page."""
    kind, key = line.act.partition("_")[0], line.subject
    pages: dict[str, type[Model]] = {"session": Context, "key": ApiKey}
    if kind in pages:
        return cells.identifier(key, cells.page_url(pages[kind], key))
    return cells.identifier(key, cells.page_url(User, key.removeprefix("user:")))


@admin.register(AuditLine)
class AuditLineAdmin(ReadOnlyAdmin):
    subject = column("what", lambda line: audited(line))
    list_display = (time_cell("at"), "actor", "act", subject)
    list_filter = ("at", "act")
    search_fields = ("=subject", "=actor")
    search_help_text = "Id of a session or key, or actor"
    id_lookups = ("subject",)
    ordering = ("-pk",)
    fields = (time_cell("at"), "actor", "act", subject, json_cell("counts"))
