"""A language model's endpoint for the agents that use one where it is configured."""

from tests.llm.conftest import endpoint

__all__ = ["endpoint"]
