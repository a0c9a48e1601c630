"""The reference of agentkit has every public name: its docstring, and an example that runs."""

import ast
import re

import griffe

import agentkit
from agentkit import llm
from tests.docs.pages import page_at
from tests.stack import ROOT

PAGE = ROOT / "docs" / "reference" / "agentkit.md"
TESTING = ("Recorder", "RememberedEffects", "Run", "response_type", "run", "task_for", "user_message")
PUBLIC = [
    *(f"agentkit.{name}" for name in agentkit.__all__),
    *(f"agentkit.llm.{name}" for name in llm.__all__),
    *(f"agentkit.testing.{name}" for name in TESTING),
]
DIRECTIVE = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)


def used_names() -> set[str]:
    """The names that the page's Python uses; importing one does not count."""
    nodes = list(ast.walk(ast.parse(page_at(PAGE).python)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    attributes = {
        f"{node.value.id}.{node.attr}"
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    return names | attributes


def test_every_public_name_is_on_the_page():
    assert sorted(DIRECTIVE.findall(PAGE.read_text())) == sorted(PUBLIC)


def test_every_public_name_has_a_docstring():
    package = griffe.load("agentkit", search_paths=[ROOT / "platform"])
    assert [name for name in PUBLIC if not package[name.removeprefix("agentkit.")].has_docstring] == []


def test_an_example_on_the_page_uses_each_name():
    paths = {name.removeprefix("agentkit.").removeprefix("llm.") for name in PUBLIC}
    assert paths - used_names() == set()
