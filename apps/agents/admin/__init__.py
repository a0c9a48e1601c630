"""What operators see of it. Django loads this module."""

from apps.agents.admin import agents, forms, versions  # noqa: F401
