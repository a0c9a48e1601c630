"""The record as the client API shows it: plain values (`…_json`), which `declared` declares to the schema.

Everything is a pure function of the log: what a session was after event N can be said again at any time, byte for byte.
Functions take many rows at once, and ask the database the same few questions however many there are.
"""

from apps.api.shapes.artifacts import artifacts_json
from apps.api.shapes.events import event_json, events_json
from apps.api.shapes.messages import messages_json
from apps.api.shapes.sessions import session_json, sessions_json
from apps.api.shapes.tasks import tasks_json
from apps.api.shapes.whole import whole_session

__all__ = [
    "artifacts_json",
    "event_json",
    "events_json",
    "messages_json",
    "session_json",
    "sessions_json",
    "tasks_json",
    "whole_session",
]
