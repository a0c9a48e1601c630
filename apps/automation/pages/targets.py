"""The part of a form that chooses an agent or a plan, and what it is started with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django import forms
from django.db.models import Q

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.plans import registry
from apps.plans.pages import InputForm
from apps.record.content.schema_forms import Field
from apps.record.errors import InvalidParams
from apps.web.resources import ResourceForm

PREFIX = "answer-"  # of the names of a plan's inputs


class AnswerField(forms.Field):
    """An input of a plan."""

    widget = forms.SelectMultiple  # reads all values of its name; `web/_field.html` draws it

    def __init__(self, asked: Field) -> None:
        super().__init__(required=False)
        self.asked = asked

    def clean(self, value: Any) -> Any:
        try:
            return self.asked.value_of(value or ())
        except InvalidParams as refused:
            raise forms.ValidationError(str(refused)) from None


class AgentForm(ResourceForm):
    """Has the field `agent`: the listed ones that the person may use, and one that is chosen or linked already."""

    def __init__(self, user: User, *data: Any, **options: Any) -> None:
        super().__init__(user, *data, **options)
        agents: Any = self.fields["agent"]
        linked = str(self.initial.get("agent") or "").replace("\x00", "")
        offered = Q(listed=True) | Q(pk=self.instance.agent_id) | Q(slug=linked)
        agents.queryset = agents.queryset.filter(offered).order_by("name")
        agents.to_field_name = "slug"
        if self.instance.agent:
            self.initial["agent"] = self.instance.agent.slug


class TargetForm(AgentForm):
    """Has the field `inputs` too. The inputs of a plan are fields of their own; other data is JSON.

    Attributes:
        target: the agent or plan that is chosen now.
        plan_inputs: the form of the chosen plan's inputs.
    """

    def __init__(self, user: User, *data: Any, **options: Any) -> None:
        super().__init__(user, *data, **options)
        chosen = self["agent"].value()
        slug = chosen.replace("\x00", "") if isinstance(chosen, str) else ""
        agents: Any = self.fields["agent"]
        self.target: Agent | None = agents.queryset.filter(slug=slug).first()
        is_plan = self.target is not None and self.target.kind == Agent.Kind.PLAN
        definition = registry.definition_of(self.target) if is_plan and self.target else None
        self.plan_inputs = InputForm.of(definition) if definition else None
        fields = self.plan_inputs.fields if self.plan_inputs else []
        self.answers = [AnswerField(one) for one in fields if one.kind != "file"]
        self._is_answered = self.is_bound and "answers" in self.data
        if self._is_answered or not self.is_bound:
            self.fields |= {PREFIX + one.asked.name: one for one in self.answers}

    @property
    def shown_inputs(self) -> list[tuple[Field, str]]:
        """The plan's inputs that can be given ahead, filled in, each with its problem."""
        problems: Any = self.errors
        return [(self._filled(one.asked), " ".join(problems.get(PREFIX + one.asked.name, ()))) for one in self.answers]

    def _filled(self, field: Field) -> Field:
        if self._is_answered:
            given = self[PREFIX + field.name].value() or []
            value = given if field.kind == "choices" else "".join(given[-1:])
        elif field.name in (kept := self.initial.get("inputs") or {}):
            value = kept[field.name]
        else:
            return field
        return replace(field, schema={**field.schema, "default": value})

    @property
    def file_inputs(self) -> list[str]:
        """The labels of inputs that only a person can give."""
        return [one.label for one in self.plan_inputs.fields if one.kind == "file"] if self.plan_inputs else []

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        if self.answers and self._is_answered:
            answers = {one.asked.name: given.get(PREFIX + one.asked.name) for one in self.answers}
            given["inputs"] = {name: value for name, value in answers.items() if value is not None}
        return given

    def field_at(self, name: str, *inner: str) -> str | None:
        answer = f"{PREFIX}{inner[0]}" if name == "inputs" and inner else ""
        return answer if answer in self.fields else super().field_at(name)
