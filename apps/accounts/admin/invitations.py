"""Accounts for new people, who set their password by a link that works once."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from unfold.decorators import action
from unfold.widgets import UnfoldAdminEmailInputWidget, UnfoldAdminTextInputWidget, UnfoldBooleanSwitchWidget

from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.accounts.people.links import sign_in_link
from parley.db.sql import write_transaction

DAY = 24 * 3600


class InvitationForm(forms.ModelForm):  # type: ignore[type-arg]
    is_superuser = forms.BooleanField(
        label="Operator",
        required=False,
        widget=UnfoldBooleanSwitchWidget,
        help_text="Operators open these admin pages and may do everything.",
    )

    class Meta:
        model = User
        fields = ("email", "name", "is_superuser")
        widgets = {
            "email": UnfoldAdminEmailInputWidget(attrs={"autofocus": True}),
            "name": UnfoldAdminTextInputWidget,
        }

    def __init__(self, *args: Any, may_give_rights: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not may_give_rights:
            del self.fields["is_superuser"]

    def clean_email(self) -> str:
        address = str(self.cleaned_data["email"]).strip().lower()
        if User.objects.filter(email__iexact=address).exists():
            raise forms.ValidationError("Somebody with this e-mail address exists already.")
        return address

    def make(self) -> User:
        values = self.cleaned_data
        rights = {"is_staff": True, "is_superuser": True} if values.get("is_superuser") else {}
        return User.objects.create_user(values["email"], None, name=values["name"], **rights)


class Invitations:
    """The part of the admin of `User` that invites."""

    actions_list = ("invite_person",)
    actions_detail = ("make_link",)

    @action(description="Invite somebody", icon="person_add", permissions=["add"])
    def invite_person(self, request: HttpRequest) -> HttpResponse:
        return redirect("admin:accounts_user_invite")

    @action(description="Make a sign-in link", icon="link", permissions=["link"])
    def make_link(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("admin:accounts_user_link", object_id)

    def has_link_permission(self, request: HttpRequest, object_id: object = None) -> bool:
        """Is the button offered? `link` checks the person too."""
        return request.user.has_perm("accounts.change_user")

    def get_urls(self: Any) -> list[Any]:
        site = self.admin_site.admin_view
        return [
            path("invite/", site(self.invite), name="accounts_user_invite"),
            path("<int:key>/link/", site(self.link), name="accounts_user_link"),
            *super().get_urls(),  # type: ignore[misc]
        ]

    @method_decorator(never_cache)
    def invite(self: Any, request: HttpRequest) -> HttpResponse:
        """Make an account and show its link, once."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        data = request.POST if request.method == "POST" else None
        form = InvitationForm(data, may_give_rights=bool(getattr(request.user, "is_superuser", False)))
        if not form.is_valid():
            return self._page(request, "Invite somebody", "invite.html", form=form)
        with write_transaction():
            person = form.make()
            self.log_addition(request, person, "Invited as an operator." if person.is_superuser else "Invited.")
        return self._show_link(request, person)

    @method_decorator(never_cache)
    def link(self: Any, request: HttpRequest, key: int) -> HttpResponse:
        """A new link for somebody who has none, or forgot the password."""
        person = self.get_object(request, str(key))
        if person is None or not self.has_change_permission(request, person) or not person.is_active:
            raise PermissionDenied
        if request.method != "POST":
            return self._page(request, f"Sign-in link for {person}", "link.html", person=person)
        self.log_change(request, person, "Made a sign-in link.", AuditAction.SIGN_IN_LINK_MADE)
        return self._show_link(request, person)

    def _show_link(self: Any, request: HttpRequest, person: User) -> HttpResponse:
        days = settings.PASSWORD_RESET_TIMEOUT // DAY
        return self._page(
            request, f"A link for {person}", "invited.html", person=person, link=sign_in_link(person), days=days
        )

    def _page(self: Any, request: HttpRequest, title: str, template: str, **about: Any) -> HttpResponse:
        page = {**self.admin_site.each_context(request), "title": title, "opts": self.opts, **about}
        headers = {"Cache-Control": "no-store"}
        return TemplateResponse(request, f"admin/installation/{template}", page, headers=headers)
