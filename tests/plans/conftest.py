"""Plans and their agents."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from agentkit import SkillHandler
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import register_plan
from parley import db
from tests.plans import plan_agents
from tests.plans.playing import Play, the_record_holds


@pytest.fixture
def agents(db):
    plan_agents.DONE.clear()
    plan_agents.GATE.clear()
    for name, kind in inspect.getmembers(plan_agents, inspect.isclass):
        if issubclass(kind, SkillHandler) and kind is not SkillHandler:
            register_hosted(name.lower(), f"{plan_agents.__name__}:{name}")
    yield
    plan_agents.GATE.set()


@pytest.fixture
def plan(agents):
    def register(steps: dict[str, Any], slug: str = "plan", **more: Any) -> Agent:
        content = {"name": "Plan", "description": "A plan.", "steps": steps, **more}
        return register_plan(slug, PlanDefinition.read(content), access=Agent.Access.AUTHENTICATED)

    return register


@pytest.fixture
def play(transactional_db, ada, plan, said, monkeypatch):
    """Runs plans by hand; at the end it compares each log with its rows."""
    monkeypatch.setattr(db, "later", db.with_database)  # callbacks of a commit are done when `play` returns
    yield Play(ada, plan, said)
    the_record_holds()
