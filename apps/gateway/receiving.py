"""The webhooks of ours that remote agents call."""

from __future__ import annotations

from apps.conversations.events import JSON


def webhook_for(run_id: object) -> JSON:
    """The settings of the webhook by which an agent says that something is new for a run."""
    raise NotImplementedError
