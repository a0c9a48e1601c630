"""The form of a guardrail, for people and operators."""

from __future__ import annotations

from typing import Any

from django import forms

from apps.optional.guardrails.finding import CATEGORIES
from apps.optional.guardrails.models import Guardrail
from apps.web.resources import CODE, ResourceForm

FIELDS = (
    "name", "direction", "action", "agents", "check_kind", "words", "patterns", "label", "categories", "region",
    "most_characters", "most_files", "most_bytes", "question", "model", "seconds", "if_fails", "decided_by",
    "only_watch", "is_on", "order",
)  # fmt: skip
OF_CHECK = {
    Guardrail.Check.PERSONAL: ("categories", "region"),
    Guardrail.Check.PATTERNS: ("words", "patterns", "label"),
    Guardrail.Check.SIZE: ("most_characters", "most_files", "most_bytes"),
    Guardrail.Check.MODEL: ("question", "model", "seconds"),
}
"""The fields that one kind of check needs."""


class NamesField(forms.CharField):
    """A list of names, separated by spaces or commas."""

    def prepare_value(self, value: Any) -> Any:
        return " ".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> Any:
        return list(dict.fromkeys(super().clean(value).replace(",", " ").split()))


class RailFields(forms.ModelForm):  # type: ignore[type-arg]
    """The fields that hold lists."""

    agents = NamesField(
        required=False, max_length=5_000, label="Only for these agents",
        help_text="Their names, such as echo, with spaces between them. None: all agents.",
    )  # fmt: skip
    categories = forms.MultipleChoiceField(
        choices=[(name, many[0].upper() + many[1:]) for name, (_, many) in CATEGORIES.items()],
        required=False, label="Kinds", widget=forms.CheckboxSelectMultiple,
    )  # fmt: skip


class GuardrailForm(RailFields, ResourceForm):
    class Meta(ResourceForm.Meta):
        model = Guardrail
        fields = FIELDS
        widgets = {
            "words": forms.Textarea({"rows": 4, "dir": "auto"}),
            "patterns": forms.Textarea({"rows": 4, **CODE}),
            "question": forms.Textarea({"rows": 2, "dir": "auto"}),
        }

    @property
    def parts(self) -> list[tuple[str, list[Any]]]:
        """The fields in their order, with the kind of check that needs them, or ""."""
        of = {name: check.value for check, names in OF_CHECK.items() for name in names}
        found: list[tuple[str, list[Any]]] = []
        for field in self:
            check = of.get(field.name, "")
            if not found or found[-1][0] != check:
                found.append((check, []))
            found[-1][1].append(field)
        return found
