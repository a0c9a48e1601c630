"""Forms of operators for people and their keys."""

from __future__ import annotations

import datetime

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from unfold.forms import UserChangeForm, UserCreationForm

from apps.accounts.models import ApiKey, User
from apps.accounts.principals import SCOPES
from console.fields import WordsField


def lower_address(form: forms.ModelForm) -> str:  # type: ignore[type-arg]
    """The form's e-mail address in the form it is kept in. Raises ValidationError where it is another person's."""
    address = str(form.cleaned_data["email"]).strip().lower()
    if User.objects.filter(email__iexact=address).exclude(pk=form.instance.pk).exists():
        raise ValidationError("Somebody with this e-mail address exists already.")
    return address


class NewUserForm(UserCreationForm):
    class Meta:
        model = User
        fields = ("email", "name")

    def clean_email(self) -> str:
        return lower_address(self)


class UserForm(UserChangeForm):
    class Meta:
        model = User
        fields = "__all__"

    def clean_email(self) -> str:
        return lower_address(self)


class ApiKeyForm(forms.ModelForm):  # type: ignore[type-arg]
    scopes = WordsField(
        required=False,
        help_text=f"What the key may do, of {' and '.join(SCOPES)}, one to a line; empty means everything.",
    )

    class Meta:
        model = ApiKey
        fields = ("user", "name", "scopes", "expires_at")

    def clean_scopes(self) -> list[str]:
        scopes: list[str] = self.cleaned_data["scopes"]
        if unknown := [scope for scope in scopes if scope not in SCOPES]:
            raise ValidationError(f"There is no scope {', '.join(unknown)}. There are: {', '.join(SCOPES)}.")
        return scopes

    def clean_expires_at(self) -> datetime.datetime | None:
        expires: datetime.datetime | None = self.cleaned_data["expires_at"]
        if "expires_at" in self.changed_data and expires is not None and expires <= timezone.now():
            raise ValidationError("This is in the past. Choose a later time, or revoke the key.")
        return expires
