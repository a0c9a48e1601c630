"""The person's data: what other apps do with it, and deleting the account."""

from __future__ import annotations

from django import forms
from django.contrib.auth import logout
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from apps.accounts.pages.account import PasswordForm
from apps.accounts.people.erasure import erase
from apps.web.settings.sections import person_of, private_view, settings_page
from parley.registry import added


class DeleteForm(PasswordForm):
    email = forms.EmailField(
        label="Type your e-mail address",
        widget=forms.EmailInput({"autocomplete": "off", "autocapitalize": "none"}),
    )

    field_order = ["email", "current_password"]

    def clean_email(self) -> str:
        address = str(self.cleaned_data["email"]).strip().lower()
        if address != self.person.email.lower():
            raise ValidationError("This is not the e-mail address of your account.")
        return address


@private_view
def my_data(request: HttpRequest) -> HttpResponse:
    return _data_page(request, DeleteForm(person_of(request)))


def _data_page(request: HttpRequest, form: DeleteForm) -> HttpResponse:
    parts = [part(request) for part in added["data_parts"]]
    return settings_page(request, "data", form, form=form, email=form.person.email, parts=parts)


@private_view
def delete_account(request: HttpRequest) -> HttpResponse:
    """Deletes the account; then a page says so. It forgets what this browser keeps, as after signing out."""
    if request.method != "POST":
        return redirect("web:settings-data")
    form = DeleteForm(person_of(request), request.POST)
    if not form.is_valid() or form.attempt(erase, form.person, form.person.principal) is None:
        return _data_page(request, form)
    request.user = AnonymousUser()  # the audit does not say who signs out
    logout(request)
    return render(request, "accounts/settings_deleted.html")


urlpatterns = [
    path("settings/data", my_data, name="settings-data"),
    path("settings/data/delete", delete_account, name="settings-delete"),
]
