"""The part of a form that chooses an agent or a plan, and what it is started with."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, cast

from django.db.models import Q

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.agents.models import Agent, AgentQuerySet
from apps.plans import registry
from apps.record.errors import InvalidParams
from apps.web.plans import InputForm
from apps.web.questions import Field, answer_from
from apps.web.resources import ResourceForm


def startable(principal: Principal, chosen: int | None = None) -> AgentQuerySet:
    """The listed agents and plans that the person may use, and the one that is `chosen` already, by its key."""
    usable = Agent.objects.visible_to(principal)
    return usable.filter(Q(listed=True) | Q(pk=chosen)).order_by("name")


class TargetForm(ResourceForm):
    """Has the fields `agent` and `inputs`. The inputs of a plan are fields of their own; other data is JSON."""

    def __init__(self, user: User, *data: Any, **options: Any) -> None:
        super().__init__(user, *data, **options)
        agents: Any = self.fields["agent"]
        agents.queryset, agents.to_field_name = startable(user.principal, self.instance.agent_id), "slug"
        if self.instance.agent:
            self.initial["agent"] = self.instance.agent.slug
        self._problems: dict[str, str] = {}  # of a plan's inputs, by the HTML names of their fields

    @cached_property
    def target(self) -> Agent | None:
        """The agent or plan that is chosen now."""
        chosen, agents = self["agent"].value(), cast("Any", self.fields["agent"])
        slug = chosen.replace("\x00", "") if isinstance(chosen, str) else ""
        found: Agent | None = agents.queryset.filter(slug=slug).first() if slug else None
        return found

    @cached_property
    def plan_inputs(self) -> InputForm | None:
        """The form of the chosen plan's inputs."""
        is_plan = self.target is not None and self.target.kind == Agent.Kind.PLAN
        definition = registry.definition_of(self.target) if is_plan and self.target else None
        return InputForm.of(definition) if definition else None

    @property
    def _input_fields(self) -> list[Field]:
        """Those that can be filled in ahead."""
        return [one for one in self.plan_inputs.fields if one.kind != "file"] if self.plan_inputs else []

    @property
    def shown_inputs(self) -> list[tuple[Field, str]]:
        """The fields of the plan's inputs, filled in, each with its problem."""
        return [(self._filled(field), self._problems.get(field.html_name, "")) for field in self._input_fields]

    def _filled(self, field: Field) -> Field:
        if self.is_bound and "answers" in self.data:
            given = cast("Any", self.data).getlist(field.html_name)
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

    @property
    def other_input_problems(self) -> list[str]:
        """Those that no field shows."""
        return [str(said) for said in self.errors.get("inputs", []) if said not in self._problems.values()]

    def clean(self) -> dict[str, Any]:
        if self._input_fields and "answers" in self.data:
            try:
                given = answer_from(self._input_fields, dict(cast("Any", self.data).lists()))
                self.cleaned_data["inputs"] = given
            except InvalidParams as refused:
                self._add_input_problem(refused.field, str(refused))
        return self.cleaned_data

    def add_refusal(self, place: str, sentence: str) -> None:
        name, _, inner = place.partition(".")
        if name == "inputs":
            self._add_input_problem(f"answer-{inner.partition('.')[0]}", sentence)
        else:
            super().add_refusal(place, sentence)

    def _add_input_problem(self, html_name: str, sentence: str) -> None:
        if any(field.html_name == html_name for field in self._input_fields):
            self._problems[html_name] = sentence
        self.add_error("inputs", sentence)
