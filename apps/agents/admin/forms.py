"""Forms for agents: hosted, remote, and without code."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelect2MultipleWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
    UnfoldBooleanWidget,
)

from agentkit import HandlerError, load_handler
from apps.accounts.models import User, Workspace
from apps.agents import definitions, tool_policies
from apps.agents.definitions import Definition
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import handler_fields, house_workspace, list_fields
from apps.agents.validators import check_skills
from apps.installation import current
from apps.model_agents import forms as forms_of_model_agents
from parley.faces.fields import RowsField, SuggestionsWidget, WordsField

FROM_HANDLER = "Leave it empty to use the handler's."
STATED_FIELDS = ("name", "description", "version", "skills", "input_modes", "output_modes")
POLICY_FIELDS = ("time_limit", "attempts", "retry_safe")


class PoliciesForm(forms.ModelForm):  # type: ignore[type-arg]
    """What this installation decides of an agent of any kind; the admin's fieldsets choose the fields."""

    class Meta:
        model = Agent
        fields = "__all__"  # noqa: DJ007 the admin's fieldsets choose
        field_classes = dict.fromkeys(("input_modes", "output_modes", "tools", "fallbacks"), WordsField)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if cost := self.fields.get("cost"):
            cost.required = False
        if workspace := self.fields.get("workspace"):
            workspace.required = False
            workspace.help_text = "Leave it empty for the installation's own workspace."
        if category := self.fields.get("category"):
            named = Agent.objects.exclude(category="").order_by("category")
            category.widget = SuggestionsWidget("categories", named.values_list("category", flat=True).distinct())

    def clean_workspace(self) -> Workspace:
        return self.cleaned_data["workspace"] or house_workspace()

    def clean_cost(self) -> float:
        return self.cleaned_data["cost"] or 0.0


class ToolPoliciesForm(PoliciesForm):
    """An agent whose language model may call tools."""

    tool_policies = WordsField(
        required=False,
        help_text="TOOL=POLICY, one per line, such as mcp:*=ask. The policies: run, ask, ask_each, ask_two, never. "
        "A tool is function:NAME, agent:ask_SLUG or mcp:NAME; * stands for any characters. Other tools run.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["tool_policies"] = tool_policies.policy_lines(self.instance)

    def clean_tool_policies(self) -> dict[str, str]:
        return tool_policies.read_policies(self.cleaned_data["tool_policies"])

    def save_tool_policies(self, author: User) -> None:
        """An agent that has no key yet is saved before, and keeps what it began with."""
        wanted: dict[str, str] = self.cleaned_data["tool_policies"]
        if "tool_policies" in self.changed_data:
            tool_policies.set_policies(self.instance, wanted, author)


class AgentForm(ToolPoliciesForm):
    """A hosted agent; its handler fills empty fields."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if kind := self.fields.get("kind"):  # other kinds have their own forms
            kind.choices = [choice for choice in Agent.Kind.choices if choice[0] == Agent.Kind.HOSTED]  # type: ignore[attr-defined]
        is_new = self.instance.pk is None
        for name in STATED_FIELDS:
            if field := self.fields.get(name):
                field.required = False
                field.help_text = f"{field.help_text} {FROM_HANDLER}".strip()
                if is_new:
                    self.initial[name] = [] if isinstance(field, (WordsField, forms.JSONField)) else ""

    def clean_skills(self) -> list[dict[str, Any]]:
        """A2A 1.0 §4.4.5. Raises ValidationError."""
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
        for field in STATED_FIELDS[:3]:
            if not cleaned.get(field) and not self.errors:
                self.add_error(field, "This cannot be empty.")
        return cleaned

    def _fill_from_handler(self, cleaned: dict[str, Any]) -> None:
        try:
            handler = load_handler(cleaned["handler"])
        except HandlerError as error:
            self.add_error("handler", str(error))
            return
        stated = handler_fields(handler, cleaned.get("slug") or self.instance.slug or "agent")
        for field in STATED_FIELDS:
            cleaned[field] = cleaned.get(field) or stated[field]
        if self.instance.pk is None:
            starting = list_fields(handler) | {policy: stated[policy] for policy in POLICY_FIELDS}
            cleaned |= {name: value for name, value in starting.items() if name not in self.changed_data}


JSON = dict[str, Any]
DEFAULT_HEADER = "Authorization"
HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,4094}[\x21-\x7e])?\Z")  # in a header (RFC 9110 §5.5)


class SkillRow(forms.Form):
    name = forms.CharField(max_length=200, widget=UnfoldAdminTextInputWidget)
    tags = forms.CharField(
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": "general"}),
        help_text="Separated by commas.",
    )
    id = forms.CharField(
        required=False,
        label="Id",
        max_length=100,
        widget=UnfoldAdminTextInputWidget,
        help_text="Leave it empty to derive it from the name.",
    )
    description = forms.CharField(widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}))
    examples = forms.CharField(
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        help_text="Sample messages, one per line.",
    )


def skill_from_row(row: JSON) -> JSON:
    skill = {name: row[name] for name in ("id", "name", "description")}
    examples = [line.strip() for line in row["examples"].splitlines() if line.strip()]
    tags = [tag.strip() for tag in row["tags"].split(",") if tag.strip()]
    return {**skill, "examples": examples} | ({"tags": tags} if tags else {})


def skill_row(skill: JSON) -> JSON:
    return {**skill, "tags": ", ".join(skill["tags"]), "examples": "\n".join(skill["examples"])}


class ServerRow(forms.Form):
    url = forms.CharField(label="URL", max_length=2000, widget=UnfoldAdminTextInputWidget(attrs={"inputmode": "url"}))
    header = forms.CharField(
        required=False, max_length=100, widget=UnfoldAdminTextInputWidget(attrs={"placeholder": DEFAULT_HEADER})
    )
    secret = forms.CharField(
        required=False,
        strip=False,
        label="Header value",
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="Such as “Bearer …”. It is stored encrypted and never shown. Leave it empty to keep the saved value.",
    )
    forget = forms.BooleanField(required=False, label="Delete the saved value", widget=UnfoldBooleanWidget)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.initial.get("is_let_in"):
            self.fields["secret"].widget.attrs["placeholder"] = "saved, not shown"
        elif not self.is_bound:
            del self.fields["forget"]

    def clean_secret(self) -> str:
        secret: str = self.cleaned_data["secret"]
        if secret and not HEADER_VALUE.match(secret):
            raise ValidationError("Use at most 4096 visible ASCII characters, without spaces at the start or end.")
        return secret


def server_from_row(row: JSON) -> JSON:
    return {"url": row["url"], "header": row["header"] or DEFAULT_HEADER}


def server_row(server: JSON, *, is_let_in: bool) -> JSON:
    """`is_let_in`: a secret is stored for the server."""
    header = "" if server["header"] == DEFAULT_HEADER else server["header"]
    return {"url": server["url"], "header": header, "is_let_in": is_let_in}


class DefinitionForm(ToolPoliciesForm, forms_of_model_agents.DefinitionForm):
    """All of a `Definition`, and the policies of `Agent`."""

    widgets = {
        "instructions": partial(UnfoldAdminTextareaWidget, attrs={"rows": 12}),
        "temperature": partial(UnfoldAdminDecimalFieldWidget, attrs={"step": "0.1"}),
        "max_steps": UnfoldAdminIntegerFieldWidget,
        "tools": UnfoldAdminCheckboxSelectMultipleWidget,
        "agents": UnfoldAdminSelect2MultipleWidget,
        "note": UnfoldAdminTextInputWidget,
    }
    plain_fields = (*forms_of_model_agents.SHARED_FIELDS, "max_tokens", "input_modes", "streaming")

    max_tokens = forms.IntegerField(
        required=False,
        min_value=1,
        widget=UnfoldAdminIntegerFieldWidget,
        label="Longest answer",
        help_text="In tokens; a word is one or two. Leave it empty for the model's default.",
    )
    streaming = forms.BooleanField(
        required=False,
        initial=True,
        widget=UnfoldBooleanSwitchWidget,
        help_text="Show the answer while the model writes it.",
    )
    mcp_servers = RowsField(ServerRow, noun="a server", label="MCP servers")
    skills = RowsField(SkillRow, noun="a skill", help_text="If empty, the card shows the agent's name and description.")
    input_modes = WordsField(
        help_text="Media types that it accepts, one per line.", initial=Definition.model_fields["input_modes"].default
    )

    class Meta(PoliciesForm.Meta):
        widgets = {"description": UnfoldAdminTextareaWidget(attrs={"rows": 3})}

    def set_initial(self, content: JSON) -> None:
        super().set_initial(content)
        self.initial["skills"] = [skill_row(skill) for skill in content["skills"]]
        known = set(self.instance.tool_secrets.values_list("url", flat=True))
        self.initial["mcp_servers"] = [
            server_row(server, is_let_in=server["url"] in known) for server in content["mcp_servers"]
        ]

    def set_choices(self) -> None:
        super().set_choices()
        known = current.snapshot()
        default = known.default.model or "none yet: add a model connection"
        field = self.fields["model"]
        field.widget = SuggestionsWidget("known-models", known.names)
        field.help_text = (
            f"A model of the default connection, or MODEL@CONNECTION. Leave it empty for the default ({default})."
        )

    def content_of(self, cleaned: JSON) -> JSON:
        skills = [skill_from_row(row) for row in cleaned["skills"]]
        servers = [server_from_row(row) for row in cleaned["mcp_servers"]]
        return {**super().content_of(cleaned), "skills": skills, "mcp_servers": servers}

    def save_definition(self, author: User) -> AgentVersion:
        is_new = self.instance.pk is None
        if not is_new:
            self.save_tool_policies(author)
        version = super().save_definition(author)
        if is_new:
            self.save_tool_policies(author)
        definitions.save_tool_secrets(self.instance, self.cleaned_data["mcp_servers"])
        return version
