"""Ada's conversations with answers."""

from typing import Any

import pytest

from agentkit import Artifact, Completed
from apps.engine import accept
from apps.record.models import Context
from tests.working import begin, end


@pytest.fixture
def tell(ada, echo, said):
    def tell(text: str, context: Context | None = None, **fields: Any) -> Context:
        sent = accept.accept(ada.principal, echo, said(text, contextId=context.context_id if context else "", **fields))
        end(begin(sent.run), Completed(f"{text} is done", [Artifact.text(text, "made")]))
        return Context.objects.get(pk=sent.context)

    return tell


@pytest.fixture
def begun(ada, echo, said):
    return lambda **more: accept.accept(ada.principal, echo, said(**more)).context
