from typing import Any

import pytest

from agentkit import Completed, Skill, SkillHandler, TaskContext
from apps.agents.models import Agent
from apps.agents.registration import register_hosted


class Upper(SkillHandler):
    """Answers in capitals."""

    name = "Upper"
    skills = (Skill("upper", "Upper", "Returns the text in capitals.", tags=["test"]),)

    async def on_request(self, task: TaskContext) -> Completed:
        return Completed(task.message.text.upper())


@pytest.fixture
def upper(db: Any) -> Agent:
    return register_hosted("upper", "tests.comparing.conftest:Upper")
