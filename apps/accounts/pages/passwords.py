"""A forgotten password, the page that a sign-in link leads to, and the confirmation of a new e-mail address."""

from __future__ import annotations

from typing import Any, cast

from allauth.account.utils import perform_login
from allauth.core import ratelimit
from django import forms
from django.contrib import messages
from django.contrib.auth.views import PasswordResetConfirmView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse, reverse_lazy

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.accounts.people import links, mail
from apps.accounts.people.sign_in import forget_wrong_passwords
from parley.db.sql import write_transaction


class AddressForm(forms.Form):
    email = forms.EmailField(
        label="E-mail", max_length=254, widget=forms.EmailInput({"autocomplete": "username", "autofocus": True})
    )

    def clean_email(self) -> str:
        return str(self.cleaned_data["email"]).strip().lower()


def forgotten(request: HttpRequest) -> HttpResponse:
    """Sends a sign-in link, and answers the same whether the account exists or not."""
    form = AddressForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and mail.can_send() and form.is_valid():
        address = form.cleaned_data["email"]
        if not ratelimit.consume(request, action="reset_password", key=address):
            return ratelimit.respond_429(request)
        _send_link(address)
        return render(request, "accounts/forgotten.html", {"sent_to": address})
    return render(request, "accounts/forgotten.html", {"form": form, "can_send": mail.can_send()})


def _send_link(address: str) -> None:
    person = User.objects.filter(email__iexact=address, is_active=True).first()
    if person is None:
        return
    audit.record(AuditAction.SIGN_IN_LINK_MADE, object=person, details={"by": "forgotten password"})
    mail.send_later("password", person.email, link=links.sign_in_link(person))


class Welcome(PasswordResetConfirmView):
    """A one-time link: sets the person's password, then signs them in, with their second factor if they have one.

    It ends with PASSWORD_RESET_TIMEOUT.
    """

    template_name = "accounts/welcome.html"
    success_url = reverse_lazy("web:home")

    def form_valid(self, form: Any) -> HttpResponse:
        person = cast("User", self.user)
        with write_transaction():
            super().form_valid(form)
            audit.record(AuditAction.PASSWORD_CHANGED, actor=person, object=person, details={"by": "sign-in link"})
        mail.tell_of_change(person.email, "Your password was changed.")
        forget_wrong_passwords(self.request, person)
        response: HttpResponse = perform_login(self.request, person, redirect_url=reverse("web:home"))
        return response

    def get_user(self, uidb64: str) -> Any:
        found = super().get_user(uidb64)
        return found if found is not None and found.is_active else None


def confirm_address(request: HttpRequest, token: str) -> HttpResponse:
    """The link in the letter to a new address. It asks first: programs that check letters follow links too."""
    change = links.address_change(token)
    if change is None:
        return render(request, "accounts/confirm_address.html", status=410)
    person, address = change
    if request.method != "POST":
        return render(request, "accounts/confirm_address.html", {"person": person, "address": address})
    links.change_address(person, address)
    messages.success(request, f"Your e-mail address is {address} now.")
    return redirect("web:settings-profile")
