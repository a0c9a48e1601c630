"""A language model's endpoint for agents that use one."""

from tests.llm.conftest import endpoint

__all__ = ["endpoint"]
