"""Functions that operators give to agents without code: marked by their authors, found by their module."""

import sys
from types import ModuleType

import pytest

from agentkit import HandlerError, Tool, load_tools, tool


@tool
def add(left: int, right: int) -> int:
    """Adds two
    numbers.

    Not told to models.
    """
    return left + right


@tool(name="shout", description="Says it loud.")
async def _loud(text: str) -> str:
    return text.upper()


def not_a_tool() -> None:
    """Is not offered."""


def test_a_tool_is_named_and_described_by_its_author_and_stays_a_function():
    assert load_tools(__name__) == [Tool("add", "Adds two numbers.", add), Tool("shout", "Says it loud.", _loud)]
    assert add(1, 2) == 3


def test_what_models_could_not_read_is_refused():
    with pytest.raises(HandlerError, match="needs a docstring"):
        tool(name="silent")(lambda text: text)
    with pytest.raises(HandlerError, match="'two words' cannot name a tool"):
        tool(name="two words", description="d")(add)


def test_a_module_without_tools_is_refused_in_a_sentence(monkeypatch):
    with pytest.raises(HandlerError, match=r"'nowhere\.tools' of tools cannot be imported"):
        load_tools("nowhere.tools")
    monkeypatch.setitem(sys.modules, "empty_tools", ModuleType("empty_tools"))
    with pytest.raises(HandlerError, match=r"'empty_tools' has no tools: mark its functions"):
        load_tools("empty_tools")
