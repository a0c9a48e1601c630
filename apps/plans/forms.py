"""The form of a plan's definition: what admin's form and the editor of people's pages share."""

from __future__ import annotations

from typing import Any, Self

from django import forms
from django.core.exceptions import ValidationError

from apps.accounts.models import User
from apps.plans import registry
from apps.plans.definitions import PlanDefinition, as_yaml, line_of
from apps.plans.models import Plan
from apps.record.errors import InvalidFields

MOST_PROBLEMS = 100


class PlanForm(forms.ModelForm):  # type: ignore[type-arg]
    """A plan as YAML. `user` writes it, and must be able to use its agents.

    Attributes:
        read: the definition, as far as it can be read.
        problems: what is wrong with it: path, sentence, and the line or 0.
    """

    user: User
    definition = forms.CharField(
        label="Definition (YAML)", strip=False, help_text="The name, the description and the steps of the plan."
    )
    note = forms.CharField(required=False, max_length=200, help_text="What is new in this version.")
    base = forms.CharField(required=False, widget=forms.HiddenInput)  # the number of the version that was opened

    class Meta:
        model = Plan
        fields: tuple[str, ...] = ("slug",)
        error_messages = {"slug": {"unique": "This name is taken. Choose another one."}}

    @classmethod
    def by(cls, user: User) -> type[Self]:
        return type(cls.__name__, (cls,), {"user": user})

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.read: PlanDefinition | None = None
        self.problems: list[tuple[str, str, int]] = []
        version = self.instance.current_version if self.instance.pk else None
        written = as_yaml(version.content) if version else registry.EXAMPLE_PLAN
        self.initial = {"definition": written, "base": str(version.number) if version else "", **self.initial}
        if self.instance.pk:
            self.fields.pop("slug", None)

    def check(self, text: str, slug: str) -> None:
        """Note what is wrong with a definition of the plan `slug`."""
        try:
            self.read = PlanDefinition.from_yaml(text)
            registry.validate(self.read, slug, self.user.principal)
        except ValidationError as error:
            found = InvalidFields.of(error).violations[:MOST_PROBLEMS]
            self.problems = [(path, said, 0 if path == "file" else line_of(text, path)) for path, said in found]

    def clean_slug(self) -> str:
        slug = str(self.cleaned_data["slug"])
        if slug in registry.RESERVED_SLUGS:
            raise ValidationError(registry.RESERVED.format(slug))
        return slug

    def clean_definition(self) -> str:
        """Raises ValidationError with a sentence per problem, by line."""
        text = str(self.cleaned_data["definition"]).replace("\r\n", "\n")
        self.check(text, self.instance.slug or self.cleaned_data.get("slug", ""))
        if self.problems:
            raise ValidationError([_located(*problem) for problem in self.problems])
        return text

    def clean(self) -> dict[str, Any]:
        if self.data.get("base", "") != (number := self.initial["base"]):
            self.data = self.data.copy()  # type: ignore[attr-defined]
            self.data["base"] = number  # type: ignore[index]
            said = f"Version {number} was saved while you were editing. Compare it with yours, then save again."
            raise ValidationError(said)
        return super().clean() or self.cleaned_data


def _located(path: str, sentence: str, line: int) -> str:
    if path == "file":
        return sentence
    return f"Line {line}, {path}: {sentence}" if line else f"{path}: {sentence}"
