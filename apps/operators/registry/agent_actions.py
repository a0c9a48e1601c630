"""What operators do to agents: pause, drain, resume, check, and approve a changed card."""

from __future__ import annotations

from functools import partial
from typing import Any

from apps.accounts.resources import NotNeeded
from apps.agents.models import Agent, AgentStats
from apps.engine import activity
from apps.features.health import monitoring
from apps.installation.models import Activity, Operation
from apps.operators.bulk import Doing, RowAction, register
from apps.remote import registration
from apps.remote.models import Checkup, RemoteAgent
from db.sql import database_time

CHANGE_AGENT = "agents.change_agent"
CHANGE_OPERATION = "installation.change_operation"
DONE = {Activity.ACTIVE: "Resumed.", Activity.PAUSED: "Paused.", Activity.DRAINING: "Draining."}


def _set(wanted: Activity, agent: Agent, doing: Doing) -> str:
    if not activity.set_activity(agent, wanted) and not doing.again:
        raise NotNeeded(f"It is {wanted.label.lower()} already.")
    return DONE[wanted]


def _set_all(wanted: Activity, _: Operation, doing: Doing) -> str:
    if not activity.set_activity_of_all(wanted, doing.operator) and not doing.again:
        raise NotNeeded(f"All agents are {wanted.label.lower()} already.")
    return DONE[wanted]


def _check(agent: Agent, _: Doing) -> str:
    """A remote agent is checked by the next round, in seconds; others here."""
    now = database_time()
    if Checkup.objects.filter(agent=agent).update(next_check_at=now, next_probe_at=now):
        return "The check has begun. Its result appears in a few seconds."
    monitoring.record_health(agent, AgentStats.objects.filter(agent=agent).first())
    agent.refresh_from_db()
    return f"{agent.get_health_display()}. {agent.ailment}".strip()


def _approve(remote: RemoteAgent, doing: Doing) -> str:
    version = remote.proposed
    if not remote.has_proposal or version is None:
        raise NotNeeded("Its card has no change to approve.")
    registration.approve_card(remote.agent, doing.operator, version)
    return f"Approved version {version.number}."


def _of_agent(key: str, label: str, wanted: Activity) -> RowAction:
    return register(RowAction(f"agent.{key}", label, Agent, CHANGE_AGENT, partial(_set, wanted)))


def _of_all(key: str, label: str, wanted: Activity) -> RowAction:
    return register(RowAction(f"operation.{key}", label, Operation, CHANGE_OPERATION, partial(_set_all, wanted)))


PAUSE = _of_agent("pause", "Pause", Activity.PAUSED)
DRAIN = _of_agent("drain", "Drain", Activity.DRAINING)
RESUME = _of_agent("resume", "Resume", Activity.ACTIVE)
PAUSE_ALL = _of_all("pause", "Pause all agents", Activity.PAUSED)
DRAIN_ALL = _of_all("drain", "Drain all agents", Activity.DRAINING)
RESUME_ALL = _of_all("resume", "Resume all agents", Activity.ACTIVE)
CHECK = register(RowAction("agent.check", "Check the health now", Agent, CHANGE_AGENT, _check, ("current_version",)))
APPROVE = register(
    RowAction(
        "remote.approve",
        "Approve the changed card",
        RemoteAgent,
        "remote.change_remoteagent",
        _approve,
        ("agent",),
        records=True,
    )
)

BUTTONS: dict[str, dict[str, Any]] = {
    "pause": {
        "icon": "pause",
        "dialog": {
            "title": "Pause?",
            "description": "Messages are accepted and wait. Turns that run go on to their end. Nothing new starts.",
            "form_submit_text": "Pause",
        },
    },
    "drain": {
        "icon": "water_drop",
        "dialog": {
            "title": "Drain?",
            "description": "New tasks are refused with an error. What was accepted runs to its end.",
            "form_submit_text": "Drain",
        },
    },
    "resume": {
        "icon": "play_arrow",
        "dialog": {
            "title": "Resume?",
            "description": "New tasks are accepted, and what waits starts at once.",
            "form_submit_text": "Resume",
        },
    },
    "check_health": {
        "icon": "monitor_heart",
        "dialog": {
            "title": "Check the health now?",
            "description": "A remote agent is asked for its card. A hosted one is loaded.",
            "form_submit_text": "Check",
        },
    },
}
"""By the path of a button."""


def is_offered(button: str, activity_now: str) -> bool:
    """Whether a page offers the button of this path."""
    wanted = {"pause": Activity.PAUSED, "drain": Activity.DRAINING, "resume": Activity.ACTIVE}
    return button not in wanted or wanted[button] != activity_now
