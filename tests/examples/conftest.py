"""A language model's endpoint for agents that use one."""

from tests.model_agents.conftest import endpoint

__all__ = ["endpoint"]
