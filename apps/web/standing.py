"""How a session stands: what its page's head says, and what its composer does.

A page begins with it, and its line tells it anew with whatever may have changed it (`session/standing.js`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.template.loader import render_to_string

from apps.record import lineage
from apps.record.events import EventType
from apps.record.lifecycle import INTERRUPTED, TERMINAL, TaskState
from apps.record.models import Context, Event, Task

TURNS = (EventType.USER_MESSAGE, EventType.AGENT_SWITCHED, EventType.FORK)


@dataclass(frozen=True, slots=True)
class Standing:
    """Which tasks count, of those that are not over."""

    agent: str  # the name of whom the session is with
    waiting: Task | None  # the one that waits for the person
    busy: Task | None  # the one that is worked at
    addressed: Task | None  # the one that what is written next belongs to
    asks: str  # the name of who waits for the person: another, where somebody stood in

    @property
    def look(self) -> str:
        return "waiting" if self.waiting else "working" if self.busy else ""

    @property
    def word(self) -> str:
        return {"waiting": "Waiting for you", "working": "Working"}.get(self.look, "")

    @property
    def is_busy(self) -> bool:
        """Whether what is sent waits for the work that goes on."""
        return self.addressed is not None and self.addressed is self.busy

    @property
    def is_shut(self) -> bool:
        """Whether a credential is asked for, which must not be written into the conversation."""
        asked = self._answers
        return asked is not None and asked.state == TaskState.AUTH_REQUIRED and "service" in (asked.slot or {})

    @property
    def placeholder(self) -> str:
        if self.is_shut:
            return "Use the button above"
        return f"Answer {self.asks}…" if self._answers else f"Message {self.agent}…"

    @property
    def _answers(self) -> Task | None:
        """The task that is answered by what is written next."""
        return self.waiting if self.addressed is self.waiting else None


def standing_of(context: Context) -> Standing:
    """How a session stands, which has its agent. One query; two where it waits, and one more in a fork."""
    unfinished = lineage.tasks(context).exclude(state__in=TERMINAL).exclude(pk__in=lineage.left(context))
    tasks = list(unfinished.select_related("agent").order_by("first_event"))
    waiting = _newest(task for task in tasks if task.state in INTERRUPTED)
    busy = _newest(task for task in tasks if task.state not in INTERRUPTED)
    here = [task for task in tasks if task.agent_id == context.agent_id]
    asked = _newest(task for task in here if task.state in INTERRUPTED)
    return Standing(context.agent.name, waiting, busy, asked or _newest(here), _asks(context, waiting))


def drawn(context: Context) -> str:
    """It as HTML: the sign of the head, and what the composer has. As many queries as `standing_of`."""
    about = {"standing": standing_of(context), "agent": context.agent, "session": context, "is_live": True}
    return render_to_string("web/_standing.html", about)


def may_turn(events: Iterable[Event]) -> bool:
    """Whether a session may stand otherwise after these events."""
    return any(
        event.type in TURNS or (event.type == EventType.AGENT_STATUS and "progress" not in event.payload)
        for event in events
    )


def _newest(tasks: Iterable[Task]) -> Task | None:
    return max(tasks, key=lambda task: task.first_event, default=None)


def _asks(context: Context, waiting: Task | None) -> str:
    if waiting is None:
        return ""
    said = lineage.messages(context).filter(index=waiting.status_event, agent__isnull=False)
    return said.values_list("agent__name", flat=True).first() or waiting.agent.name
