"""Guardrails of a person's workspace, and agents by class."""

import itertools

import pytest

from apps.optional.guardrails.models import Guardrail
from parley import db
from tests.engine.conftest import agent, agent_at, published  # noqa: F401

NUMBERS = itertools.count()


@pytest.fixture
def rail(ada):
    """Makes guardrails of Ada's workspace: for personal data, unless it is said otherwise."""

    async def make(**fields):
        known = {"name": f"Rail {next(NUMBERS)}", "categories": ["email"], "workspace_id": ada.principal.workspace_id}
        return await db.run(Guardrail.objects.create, **{**known, **fields})

    return make
