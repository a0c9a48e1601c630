"""The form in which operators register an agent and set its policies."""

from __future__ import annotations

from typing import Any

from django import forms

from agentkit import HandlerError, load_handler
from apps.accounts.models import Workspace
from apps.agents.card_content import check_skills
from apps.agents.models import Agent
from apps.agents.registration import described_by, house_workspace
from console.fields import WordsField

FROM_HANDLER = "Empty: what the handler says."
STATED = ("name", "description", "version", "skills", "input_modes", "output_modes")
POLICIES = ("time_limit", "attempts", "retry_safe")


class PoliciesForm(forms.ModelForm):  # type: ignore[type-arg]
    """What every agent's form has, whatever it is made of: fields that may be left empty."""

    fallbacks = WordsField(
        required=False, help_text="Slugs of the agents that take its turns when it cannot be reached, one to a line."
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if cost := self.fields.get("cost"):
            cost.required = False
        if workspace := self.fields.get("workspace"):
            workspace.required = False
            workspace.help_text = "Empty: the installation's own."

    def clean_workspace(self) -> Workspace:
        return self.cleaned_data["workspace"] or house_workspace()

    def clean_cost(self) -> float:
        return self.cleaned_data["cost"] or 0.0


class AgentForm(PoliciesForm):
    """A hosted agent's handler is loaded before it is registered; what is left empty is taken from it."""

    input_modes = WordsField(required=False, help_text="Media types the agent takes, one to a line.")
    output_modes = WordsField(required=False, help_text="Media types the agent makes, one to a line.")
    tools = WordsField(required=False, help_text="Names of the tools that the agent uses, one to a line.")

    class Meta:
        model = Agent
        fields = "__all__"  # noqa: DJ007 the admin's fieldsets choose

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if kind := self.fields.get("kind"):  # the other kinds have forms of their own
            kind.choices = [choice for choice in Agent.Kind.choices if choice[0] == Agent.Kind.HOSTED]  # type: ignore[attr-defined]
        is_new = self.instance.pk is None
        for name in STATED:
            if field := self.fields.get(name):
                field.required = False
                field.help_text = f"{field.help_text} {FROM_HANDLER}".strip()
                if is_new:
                    self.initial[name] = [] if isinstance(field, (WordsField, forms.JSONField)) else ""

    def clean_skills(self) -> list[dict[str, Any]]:
        """A card's skills (A2A 1.0 §4.4.5). Raises ValidationError for what is none."""
        skills = self.cleaned_data["skills"] or []
        check_skills(skills)
        return skills

    def clean_capabilities(self) -> dict[str, Any]:
        return self.cleaned_data["capabilities"] or {}

    def clean_extended_card(self) -> dict[str, Any]:
        return self.cleaned_data["extended_card"] or {}

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if cleaned.get("kind") == Agent.Kind.HOSTED and "handler" in cleaned:
            self._fill_from_handler(cleaned)
        for field in STATED[:3]:
            if not cleaned.get(field) and not self.errors:
                self.add_error(field, "This cannot be empty.")
        return cleaned

    def _fill_from_handler(self, cleaned: dict[str, Any]) -> None:
        try:
            handler = load_handler(cleaned["handler"])
        except HandlerError as error:
            self.add_error("handler", str(error))
            return
        stated = described_by(handler, cleaned.get("slug") or self.instance.slug or "agent")
        for field in STATED:
            cleaned[field] = cleaned.get(field) or stated[field]
        if self.instance.pk is None:
            cleaned |= {policy: stated[policy] for policy in POLICIES if policy not in self.changed_data}


class RemoteAgentForm(PoliciesForm):
    """Of a remote agent only what this platform decides is edited; the rest its card says."""

    tools = WordsField(required=False, help_text="Names of the tools that the agent uses, one to a line.")

    class Meta:
        model = Agent
        fields = "__all__"  # noqa: DJ007 the admin's fieldsets choose
