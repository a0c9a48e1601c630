"""What operators see of it. Django loads this module."""

from apps.remote.admin import agents, health  # noqa: F401
