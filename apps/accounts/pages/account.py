"""Profile, password and appearance."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable
from functools import cache
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError
from django.db.models import F
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import path
from django.views.decorators.http import require_POST, require_safe

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.errors import Refusal
from apps.accounts.models import User
from apps.accounts.people import links, mail
from apps.accounts.people.sign_in import confirmation_problem
from apps.accounts.requests.quotas import QuotaExceeded
from apps.web.resources import RefusableForm
from apps.web.settings.sections import person_of, private_view, settings_page
from apps.web.shell import View
from parley.db.sql import write_transaction

ADDRESS_UNPROVEN = "This installation sends no e-mail, so you cannot show that the address is yours. Ask an operator."
BROWSER_ZONE = "Same as the browser"


@require_safe
@login_required
def settings_home(request: HttpRequest) -> HttpResponse:
    return redirect("web:settings-profile")


@cache
def time_zones() -> list[tuple[str, Any]]:
    """The choices of a time zone, by continent."""
    regions: dict[str, list[tuple[str, str]]] = {}
    for name in sorted(zoneinfo.available_timezones()):
        region, _, place = name.partition("/")
        if place and region not in ("Etc", "SystemV", "US"):
            regions.setdefault(region, []).append((name, place.replace("_", " ").replace("/", ", ")))
    return [("", BROWSER_ZONE), ("UTC", "UTC"), *regions.items()]


class PasswordInput(forms.PasswordInput):
    def __init__(self, autocomplete: str = "current-password") -> None:
        super().__init__({"autocomplete": autocomplete})


class AddressTaken(Refusal):
    """Somebody else here uses this e-mail address. Choose another."""

    field = "email"


class SettingForm(RefusableForm, forms.Form):
    """A form whose act may be refused."""

    def attempt[**P, T](self, do: Callable[P, T], *given: P.args, **named: P.kwargs) -> T | None:
        """What `do` gives; None, with the form's error, if it is refused."""
        try:
            return do(*given, **named)
        except (Refusal, QuotaExceeded) as refused:
            self.add_refusal(refused)
        return None


class PersonForm(SettingForm):
    """A form of the person's."""

    def __init__(self, person: User, *args: Any, **kwargs: Any) -> None:
        self.person = person
        super().__init__(*args, **kwargs)

    def save(self, request: HttpRequest) -> str:
        """For `form_view`: what the page says then. Raises Refusal."""
        raise NotImplementedError


class PasswordForm(PersonForm):
    """A form that asks for the person's password again."""

    current_password = forms.CharField(label="Your password", strip=False, required=False, widget=PasswordInput())

    def __init__(self, person: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(person, *args, **kwargs)
        if not person.has_usable_password():
            self.fields.pop("current_password", None)

    def wants_password(self) -> bool:
        """May be called once the fields before it are clean."""
        return True

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors and self.wants_password():
            problem = confirmation_problem(self.person, cleaned.get("current_password", ""))
            if problem:
                self.add_error("current_password", problem)
        return cleaned


def form_view(section: str, form_class: type[PersonForm]) -> View:
    """The page of a section that has nothing but a form."""

    @private_view
    def shown(request: HttpRequest) -> HttpResponse:
        person = User.objects.get(pk=person_of(request).pk)  # a rejected form leaves request.user as it is
        form = form_class(person, request.POST or None)
        if form.is_valid() and (sentence := form.attempt(form.save, request)):
            return saved(request, section, sentence)
        return settings_page(request, section, form, form=form)

    return shown


class ProfileForm(PasswordForm):
    name = forms.CharField(
        max_length=120,
        required=False,
        help_text="Shown with your messages. Without a name, Parley shows your e-mail address up to the @.",
        widget=forms.TextInput({"autocomplete": "name"}),
    )
    email = forms.EmailField(
        label="E-mail",
        max_length=254,
        help_text="You sign in with this address.",
        widget=forms.EmailInput({"autocomplete": "email"}),
    )
    time_zone = forms.ChoiceField(choices=time_zones, required=False, help_text="Parley shows times in this time zone.")

    field_order = ["name", "email", "current_password", "time_zone"]

    def __init__(self, person: User, *args: Any, **kwargs: Any) -> None:
        known = {"name": person.name, "email": person.email, "time_zone": person.time_zone}
        super().__init__(person, *args, initial=known, **kwargs)
        if "current_password" in self.fields:
            self.fields["current_password"].help_text = "Needed to change your e-mail address."

    def clean_email(self) -> str:
        address = str(self.cleaned_data["email"]).strip().lower()
        if User.objects.filter(email__iexact=address).exclude(pk=self.person.pk).exists():
            raise ValidationError(str(AddressTaken()))
        if address != self.person.email and settings.OIDC_URL and not mail.can_send():
            raise ValidationError(ADDRESS_UNPROVEN)
        return address

    def wants_password(self) -> bool:
        return self.cleaned_data.get("email") != self.person.email

    def save(self, request: HttpRequest) -> str:
        """A new address counts once it is confirmed, if there is a mail server. Raises AddressTaken."""
        person, cleaned = self.person, self.cleaned_data
        person.name, person.time_zone = cleaned["name"].strip(), cleaned["time_zone"]
        save_appearance(person, "name", "time_zone")
        if (address := cleaned["email"]) == person.email:
            return "Saved."
        if not mail.can_send():
            try:
                links.change_address(person, address)
            except IntegrityError:  # at the same moment
                raise AddressTaken from None
            return "Saved."
        mail.send_later("address", address, link=links.address_link(person, address))
        return f"Saved. Open the link that was sent to {address}: until then, you sign in with {person.email}."


def save_appearance(person: User, *fields: str) -> None:
    """Save these fields. Pages that this browser keeps learn by the version that they are older."""
    person.save(update_fields=fields)
    User.objects.filter(pk=person.pk).update(appearance_version=F("appearance_version") + 1)
    person.refresh_from_db(fields=["appearance_version"])


def saved(request: HttpRequest, section: str, sentence: str = "Saved.") -> HttpResponse:
    """Back to the section's page, which says so."""
    messages.success(request, sentence)
    return redirect(f"web:settings-{section}")


class NewPasswordForm(PasswordForm):
    """Another password ends all other sessions of the person."""

    new_password = forms.CharField(
        strip=False,
        help_text="Use at least 8 characters. Avoid common passwords and your name.",
        widget=PasswordInput("new-password"),
    )
    again = forms.CharField(label="New password again", strip=False, widget=PasswordInput("new-password"))

    def __init__(self, person: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(person, *args, **kwargs)
        if "current_password" in self.fields:
            self.fields["current_password"].label = "Current password"

    def clean_new_password(self) -> str:
        password = str(self.cleaned_data["new_password"])
        validate_password(password, self.person)
        return password

    def clean_again(self) -> str:
        again = str(self.cleaned_data["again"])
        if "new_password" in self.cleaned_data and again != self.cleaned_data["new_password"]:
            raise ValidationError("The two new passwords differ. Type the new one again.")
        return again

    def save(self, request: HttpRequest) -> str:
        self.person.set_password(self.cleaned_data["new_password"])  # slow, so before the transaction
        with write_transaction():
            self.person.save(update_fields=["password"])
            audit.record(AuditAction.PASSWORD_CHANGED, actor=self.person, object=self.person)
        mail.tell_of_change(self.person.email, "Your password was changed.")
        update_session_auth_hash(request, self.person)
        return "Password changed. All other browsers are signed out."


class AppearanceForm(PersonForm):
    theme = forms.ChoiceField(choices=User.Theme.choices, required=False, widget=forms.RadioSelect)

    def __init__(self, person: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(person, *args, initial={"theme": person.theme}, **kwargs)

    def save(self, request: HttpRequest) -> str:
        self.person.theme = self.cleaned_data["theme"]
        save_appearance(self.person, "theme")
        return "Saved."


@require_POST
@login_required
def theme(request: HttpRequest) -> JsonResponse:
    """The switch in the menu. Answers with the version of the appearance."""
    person, chosen = person_of(request), request.POST.get("theme", "")
    if chosen not in ("", *User.Theme.values):
        return JsonResponse({"error": "There is no such theme. Choose light or dark."}, status=422)
    person.theme = chosen
    save_appearance(person, "theme")
    return JsonResponse({"version": person.appearance_version})


urlpatterns = [
    path("settings", settings_home, name="settings"),
    path("settings/profile", form_view("profile", ProfileForm), name="settings-profile"),
    path("settings/password", form_view("password", NewPasswordForm), name="settings-password"),
    path("settings/appearance", form_view("appearance", AppearanceForm), name="settings-appearance"),
    path("settings/appearance/theme", theme, name="settings-theme"),
]
