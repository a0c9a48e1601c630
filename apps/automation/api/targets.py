"""What a body starts: an agent or a plan."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.fields import empty

from apps.agents.models import Agent
from apps.api.framework.serializers import Line
from apps.automation import targets
from apps.record.errors import InvalidFields


class Target(Line):
    """An agent or plan that the caller may use, by its slug. Answers have null if it was deleted."""

    def __init__(self, **options: Any) -> None:
        usual = {
            "max_length": 63,
            "allow_null": True,
            "help_text": "The slug of the agent or the plan. In answers, null if it was deleted.",
        }
        super().__init__(**{**usual, **options})

    def run_validation(self, data: Any = empty) -> Any:
        slug = super().run_validation(data)
        try:
            return None if slug is None else targets.find_target(self.context["caller"], slug)
        except InvalidFields as unknown:
            raise ValidationError(unknown.violations[0][1]) from None

    def to_representation(self, value: Agent) -> str:  # type: ignore[override]
        return value.slug
