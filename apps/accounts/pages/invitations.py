"""Inviting people, the page of an invitation, and signing up."""

from __future__ import annotations

from typing import Any

from allauth.account.utils import perform_login
from allauth.core import ratelimit
from django import forms
from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse

from apps.accounts.models import Invitation, User
from apps.accounts.pages.account import PasswordInput
from apps.accounts.pages.passwords import AddressForm
from apps.accounts.people import invitations, links, mail
from apps.web.settings.resources import SectionPages
from apps.web.settings.sections import person_of, private_view, settings_page

MOST_SHOWN = 200


class InviteForm(forms.Form):
    email = forms.EmailField(
        label="E-mail",
        max_length=254,
        required=False,
        help_text="Only the person with this address can accept. If you leave it empty, anyone with the link can.",
        widget=forms.EmailInput({"autocomplete": "off"}),
    )

    def clean_email(self) -> str:
        return str(self.cleaned_data["email"]).strip().lower()


@private_view
def invite(request: HttpRequest) -> HttpResponse:
    """The person's invitations, and a form for another. A new link is shown once: it is stored nowhere."""
    person = person_of(request)
    if not invitations.may_invite(person):
        raise PermissionDenied
    form = InviteForm(request.POST if request.method == "POST" else None)
    made, link = None, ""
    if request.method == "POST" and form.is_valid():
        try:
            made, link = invitations.invite(person, form.cleaned_data["email"])
        except invitations.Refused as refused:
            form.add_error(None, str(refused))
    mine = invitations.INVITATIONS.visible_to(person.principal)[:MOST_SHOWN]
    is_sent = bool(made and made.email and mail.can_send())
    days = links.INVITATION_LIFETIME.days
    about = {"made": made, "link": link, "invitations": mine, "is_sent": is_sent, "days": days}
    return settings_page(request, "invitations", form, form=InviteForm() if made else form, **about)


class NewPersonForm(forms.Form):
    email = forms.EmailField(label="E-mail", max_length=254, widget=forms.EmailInput({"autocomplete": "username"}))
    name = forms.CharField(max_length=120, required=False, widget=forms.TextInput({"autocomplete": "name"}))
    password = forms.CharField(
        strip=False,
        help_text="At least 8 characters. Not a common password, and not like your name.",
        widget=PasswordInput("new-password"),
    )

    def __init__(self, invitation: Invitation, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if invitation.email:
            self.fields["email"].initial, self.fields["email"].disabled = invitation.email, True

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if "password" in cleaned:
            try:
                validate_password(cleaned["password"], User(email=cleaned.get("email", ""), name=cleaned["name"]))
            except forms.ValidationError as problem:
                self.add_error("password", problem)
        return cleaned


def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Who is signed in accepts by a button; others make an account, and are signed in."""
    found = invitations.find(token)
    if found is None:
        return render(request, "accounts/invitation.html", status=410)
    person = request.user if isinstance(request.user, User) else None
    data = request.POST if request.method == "POST" else None
    form = forms.Form(data) if person else NewPersonForm(found, data)
    about = {"invitation": found, "form": form, "person": person, "next": request.path}
    if request.method != "POST" or not form.is_valid():
        return render(request, "accounts/invitation.html", about)
    try:
        came = invitations.accept(token, person, **form.cleaned_data)
    except invitations.Refused as refused:
        form.add_error(None, str(refused))
        return render(request, "accounts/invitation.html", about)
    if person:
        return redirect("web:home")
    response: HttpResponse = perform_login(request, came, redirect_url=reverse("web:home"))
    return response


def sign_up(request: HttpRequest) -> HttpResponse:
    """Sends a link to an address of an allowed domain; not found where nobody may sign up (SIGN_UP_DOMAINS)."""
    if not settings.SIGN_UP_DOMAINS or not mail.can_send():
        raise Http404
    form = AddressForm(request.POST if request.method == "POST" else None)
    if request.method != "POST" or not form.is_valid():
        return render(request, "accounts/sign_up.html", {"form": form, "domains": settings.SIGN_UP_DOMAINS})
    address = form.cleaned_data["email"]
    if not ratelimit.consume(request, action="reset_password", key=address):
        return ratelimit.respond_429(request)
    if not invitations.is_of_sign_up_domain(address):
        form.add_error("email", "Nobody can sign up with an address of this domain. Ask an operator for an invitation.")
        return render(request, "accounts/sign_up.html", {"form": form, "domains": settings.SIGN_UP_DOMAINS})
    hours = invitations.sign_up(address)
    return render(request, "accounts/sign_up.html", {"sent_to": address, "hours": hours})


pages = SectionPages(invitations.INVITATIONS, section="invitations")
urlpatterns = [
    path("settings/invitations", invite, name="settings-invitations"),
    *pages.row_urls("settings/invitations"),
]
