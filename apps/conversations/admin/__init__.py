"""Operators' pages of the record: read-only, linked to each other, live where something moves.

Tasks are registered in `apps.runtime.admin`, because what operators can do with one needs the runtime.
"""

from apps.conversations.admin import audit, contexts, events, feedback, messages, runs, storage

__all__ = ["audit", "contexts", "events", "feedback", "messages", "runs", "storage"]
