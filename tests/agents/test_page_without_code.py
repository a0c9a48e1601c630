"""The page's tools work with a model, and it names every field."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from apps.engine import accept
from parley import db
from tests.agents.definitions import clerk
from tests.model_agents.conftest import endpoint
from tests.model_agents.endpoint import calls, says
from tests.working import carry_out

__all__ = ["endpoint"]
PAGE = (Path(__file__).parents[2] / "docs/how-to/agents-without-code.md").read_text()


def block(language: str) -> str:
    [found] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


@pytest.mark.slow("code of a page is executed")
@pytest.mark.django_db(transaction=True)
async def test_the_tools_of_the_page_are_used(ada, said, endpoint, settings, monkeypatch):
    module = ModuleType("my_tools_of_the_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(block("python"), vars(module))
    settings.AGENT_TOOLS = [module.__name__]
    endpoint.replies = [calls(("convert_miles", {"miles": 2}), ("last_words", {})), says("Done.")]
    agent = await db.run(clerk, tools=["convert_miles", "last_words"])
    receipt = await db.run(accept.accept, ada.principal, agent, said("How far is it?"))
    await carry_out(receipt.run)
    results = [content for role, content in endpoint.said() if role == "tool"]
    assert results == ["3.22 km", "How far is it?"]
