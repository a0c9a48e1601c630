"""Operators' pages of the record: read-only, linked to each other, live where something moves.

Tasks are registered in `apps.operators.engine`, because what operators can do with one needs the runtime.
"""

from apps.operators.record import audit, contexts, events, feedback, messages, runs, storage

__all__ = ["audit", "contexts", "events", "feedback", "messages", "runs", "storage"]
