"""The rows of the form of an agent without code: its skills, and the MCP servers that it may use."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import (
    UnfoldAdminPasswordWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

JSON = dict[str, Any]
HEADER = "Authorization"
SECRET = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,4094}[\x21-\x7e])?\Z")  # what a header can carry (RFC 9110 §5.5)


class SkillRow(forms.Form):
    name = forms.CharField(max_length=200, widget=UnfoldAdminTextInputWidget)
    tags = forms.CharField(
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": "general"}),
        help_text="With commas between them.",
    )
    id = forms.CharField(
        required=False,
        label="Id",
        max_length=100,
        widget=UnfoldAdminTextInputWidget,
        help_text="Empty: made of the name.",
    )
    description = forms.CharField(widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}))
    examples = forms.CharField(
        required=False, widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}), help_text="What people might ask, by line."
    )


def skill_of(row: JSON) -> JSON:
    """A skill of a definition."""
    skill = {name: row[name] for name in ("id", "name", "description")}
    examples = [line.strip() for line in row["examples"].splitlines() if line.strip()]
    tags = [tag.strip() for tag in row["tags"].split(",") if tag.strip()]
    return {**skill, "examples": examples} | ({"tags": tags} if tags else {})


def skill_row(skill: JSON) -> JSON:
    return {**skill, "tags": ", ".join(skill["tags"]), "examples": "\n".join(skill["examples"])}


class ServerRow(forms.Form):
    url = forms.CharField(label="URL", max_length=2000, widget=UnfoldAdminTextInputWidget(attrs={"inputmode": "url"}))
    header = forms.CharField(
        required=False, max_length=100, widget=UnfoldAdminTextInputWidget(attrs={"placeholder": HEADER})
    )
    secret = forms.CharField(
        required=False,
        strip=False,
        label="What the header says",
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="Such as “Bearer …”. Kept encrypted and never shown; empty: what is kept for this URL stays.",
    )
    forget = forms.BooleanField(required=False, label="Forget what is kept", widget=UnfoldBooleanWidget)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.initial.get("is_let_in"):
            self.fields["secret"].widget.attrs["placeholder"] = "kept, not shown"
        elif not self.is_bound:
            del self.fields["forget"]

    def clean_secret(self) -> str:
        secret: str = self.cleaned_data["secret"]
        if secret and not SECRET.match(secret):
            raise ValidationError("Write at most 4096 visible ASCII characters, with no space at either end.")
        return secret


def server_of(row: JSON) -> JSON:
    """An MCP server of a definition."""
    return {"url": row["url"], "header": row["header"] or HEADER}


def server_row(server: JSON, *, is_let_in: bool) -> JSON:
    """With `is_let_in` where a secret is kept for it."""
    header = "" if server["header"] == HEADER else server["header"]
    return {"url": server["url"], "header": header, "is_let_in": is_let_in}
