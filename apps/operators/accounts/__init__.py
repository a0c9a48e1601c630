"""Operators' pages of people, their groups and workspaces, and their API keys."""

from apps.operators.accounts import keys, people, workspaces

__all__ = ["keys", "people", "workspaces"]
