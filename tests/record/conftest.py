"""Ada's conversations with answers."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from agentkit import Artifact, Completed
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine import accept
from apps.record.models import Context
from tests.working import begin, end


@pytest.fixture
def tell(ada: User, echo: Agent, said: Any) -> Callable[..., Context]:
    def tell(text: str, context: Context | None = None, **fields: Any) -> Context:
        sent = accept.accept(ada.principal, echo, said(text, contextId=context.context_id if context else "", **fields))
        end(begin(sent.run), Completed(f"{text} is done", [Artifact.text(text, "made")]))
        return Context.objects.get(pk=sent.context)

    return tell


@pytest.fixture
def begun(ada: User, echo: Agent, said: Any) -> Callable[..., uuid.UUID]:
    return lambda **more: accept.accept(ada.principal, echo, said(**more)).context
