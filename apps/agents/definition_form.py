"""The form in which operators make agents without code and change them."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelect2MultipleWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from agentkit import HandlerError
from apps.accounts.models import User
from apps.agents import definitions, tool_secrets, tools
from apps.agents.definition_rows import ServerRow, SkillRow, server_of, server_row, skill_of, skill_row
from apps.agents.definitions import Definition
from apps.agents.forms import PoliciesForm
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import define
from console.fields import WordsField
from console.rows import RowsField

JSON = dict[str, Any]
AS_THEY_ARE = (
    "name", "description", "instructions", "model", "temperature", "max_tokens", "max_steps", "tools", "agents",
    "input_modes", "streaming",
)  # fmt: skip


class DefinitionForm(PoliciesForm):
    """Its fields are those of a `Definition`, and the policies of `Agent`.

    What was opened is sent back (`opened`), so that nobody overwrites a version that they have not seen.
    """

    instructions = forms.CharField(
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 12}),
        help_text="What the model is told before each conversation: who it is, what it does, what it leaves.",
    )
    model = forms.CharField(required=False, max_length=200, widget=UnfoldAdminTextInputWidget)
    temperature = forms.FloatField(
        required=False,
        min_value=0,
        max_value=2,
        widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "0.1"}),
        help_text="From 0 (always alike) to 2 (surprising). Empty: the model's own.",
    )
    max_tokens = forms.IntegerField(
        required=False,
        min_value=1,
        widget=UnfoldAdminIntegerFieldWidget,
        label="Longest answer",
        help_text="In tokens, of which a word has one or two. Empty: the model's own.",
    )
    max_steps = forms.IntegerField(
        min_value=1,
        max_value=definitions.MOST_STEPS,
        initial=10,
        widget=UnfoldAdminIntegerFieldWidget,
        label="Most steps",
        help_text="How often the model may be asked in one turn; each use of tools is a step.",
    )
    streaming = forms.BooleanField(
        required=False,
        initial=True,
        widget=UnfoldBooleanSwitchWidget,
        help_text="Is the answer shown while it is written?",
    )
    tools = forms.MultipleChoiceField(required=False, widget=UnfoldAdminCheckboxSelectMultipleWidget)
    agents = forms.MultipleChoiceField(
        required=False, widget=UnfoldAdminSelect2MultipleWidget, help_text="Whom it may ask; each is a tool as well."
    )
    mcp_servers = RowsField(ServerRow, noun="a server", label="MCP servers")
    skills = RowsField(SkillRow, noun="a skill", help_text="Without any, its card has one of its name and description.")
    input_modes = WordsField(
        help_text="Media types that it takes, one to a line.", initial=Definition.model_fields["input_modes"].default
    )
    note = forms.CharField(
        required=False,
        max_length=200,
        widget=UnfoldAdminTextInputWidget,
        help_text="What is new, for the list of versions.",
    )
    opened = forms.IntegerField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = Agent
        widgets = {"description": UnfoldAdminTextareaWidget(attrs={"rows": 3})}
        fields = "__all__"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.definition: Definition | None = None
        self.instance.kind = Agent.Kind.MODEL
        if self.instance.current_version:
            self._show(self.instance.current_version)
        self._offer()

    def _show(self, version: AgentVersion) -> None:
        content = version.content
        self.initial.update({name: content[name] for name in AS_THEY_ARE})
        self.initial["skills"] = [skill_row(skill) for skill in content["skills"]]
        known = set(self.instance.tool_secrets.values_list("url", flat=True))
        self.initial["mcp_servers"] = [
            server_row(server, is_let_in=server["url"] in known) for server in content["mcp_servers"]
        ]
        self.initial["opened"] = version.number

    def _offer(self) -> None:
        """The choices, and what stands for what is left empty."""
        offered, problem = _offered_tools()
        chosen = [name for name in self.initial.get("tools", []) if name not in offered]
        gone = {name: f"{name}: no longer there" for name in chosen}
        self.fields["tools"].choices = list({**offered, **gone}.items())  # type: ignore[attr-defined]
        self.fields["tools"].help_text = problem
        others = Agent.objects.exclude(pk=self.instance.pk).order_by("name").values_list("slug", "name")
        agents = {slug: f"{name} ({slug})" for slug, name in others}
        gone = {slug: f"{slug}: no longer there" for slug in self.initial.get("agents", []) if slug not in agents}
        self.fields["agents"].choices = list({**agents, **gone}.items())  # type: ignore[attr-defined]
        platform = settings.LLM_MODEL or "none is configured yet: set LLM_MODEL"
        self.fields["model"].help_text = f"A name that the model's provider knows. Empty: the platform's ({platform})."

    def clean(self) -> JSON:
        cleaned: JSON = super().clean() or self.cleaned_data
        self._refuse_what_is_stale(cleaned)
        if not self.errors:
            self._read(cleaned)
        return cleaned

    def _refuse_what_is_stale(self, cleaned: JSON) -> None:
        """From here to the end of the request's transaction nobody else changes the agent."""
        if self.instance.pk is None:
            return
        locked = Agent.objects.select_for_update().get(pk=self.instance.pk)
        current = locked.current_version
        if current and cleaned.get("opened") != current.number:
            who = f" by {current.author}" if current.author else ""
            raise ValidationError(
                f"Version {current.number} was made{who} while you were writing. Open this page anew in another tab, "
                "and bring what you wrote over."
            )

    def _read(self, cleaned: JSON) -> None:
        told = {name: cleaned[name] for name in AS_THEY_ARE}
        told["skills"] = [skill_of(row) for row in cleaned["skills"]]
        told["mcp_servers"] = [server_of(row) for row in cleaned["mcp_servers"]]
        try:
            self.definition = Definition.read(told)
            definitions.check(self.definition, cleaned["slug"])
        except ValidationError as error:
            for field, sentences in error.message_dict.items():
                self.add_error(field if field in self.fields else None, sentences)

    def keep(self, author: User) -> AgentVersion:
        """Save the agent with what the form says, as a new version where that differs. The form is valid."""
        if self.definition is None:
            raise AssertionError("a valid form has a definition")
        version = define(self.instance, self.definition, author=author, note=self.cleaned_data["note"])
        tool_secrets.keep(self.instance, self.cleaned_data["mcp_servers"])
        return version


def _offered_tools() -> tuple[dict[str, str], str]:
    """The names of the tools with what they are shown as, and what is wrong if they cannot be had."""
    try:
        return {tool.name: f"{tool.name}: {tool.summary}" for tool in tools.registered().values()}, ""
    except HandlerError as error:
        return {}, str(error)
