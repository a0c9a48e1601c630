"""The status of a session: the sign in the head, the state of the composer, the timeline, and the sign in the sidebar.

Only this module draws the status, when the page loads and live. The WebSocket sends it with every event that may change
it (`may_change_status`; extend `STATUS_EVENTS` for a new value), so that the page changes everything in one frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.template.loader import render_to_string

from apps.conversations.pages.tasks import small_timeline
from apps.engine.cancel import STOP_AFTER_STEP
from apps.record import lineage
from apps.record.events import EventType
from apps.record.models import INTERRUPTED_STATES, TERMINAL_STATES, Context, Event, Task, TaskState
from apps.web.templatetags.parley import news_sign

STATUS_EVENTS = (EventType.USER_MESSAGE, EventType.AGENT_SWITCHED, EventType.FORK)


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """What the head and the composer show."""

    agent: str
    waiting: Task | None  # for the person
    busy: Task | None
    recipient: Task | None  # of the next message
    asking_agent: str  # may be a fallback

    @property
    def sign(self) -> str:
        return "waiting" if self.waiting else "working" if self.busy else ""

    @property
    def label(self) -> str:
        return {"waiting": "Waiting for you", "working": "Working"}.get(self.sign, "")

    @property
    def is_busy(self) -> bool:
        """Whether the next message waits."""
        return self.recipient is not None and self.recipient is self.busy

    @property
    def is_steered(self) -> bool:
        """Whether the next message goes to the work, which may read it at its next step."""
        return self.is_busy and self.recipient is not None and self.recipient.agent.reads_while_it_works

    @property
    def send_label(self) -> str:
        """What Enter does."""
        return "Send now" if self.is_steered else "Send when the agent is done" if self.is_busy else "Send"

    @property
    def may_stop_after_step(self) -> bool:
        return self.busy is not None and STOP_AFTER_STEP.is_offered(self.busy)

    @property
    def is_closed(self) -> bool:
        """Whether a credential is asked for: people must not write it here."""
        asked = self._answers
        return asked is not None and asked.state == TaskState.AUTH_REQUIRED and "service" in (asked.slot or {})

    @property
    def placeholder(self) -> str:
        if self.is_closed:
            return "Use the button above"
        return f"Answer {self.asking_agent}…" if self._answers else f"Message {self.agent}…"

    @property
    def _answers(self) -> Task | None:
        return self.waiting if self.recipient is self.waiting else None


def session_status(context: Context) -> SessionStatus:
    """The status of a session. One query, plus one where a task waits, plus one in a fork."""
    unfinished = (
        lineage.tasks(context).exclude(state__in=TERMINAL_STATES).exclude(pk__in=lineage.left_task_ids(context))
    )
    tasks = list(unfinished.select_related("agent").order_by("first_event"))
    waiting = _newest(task for task in tasks if task.state in INTERRUPTED_STATES)
    busy = _newest(task for task in tasks if task.state not in INTERRUPTED_STATES)
    here = [task for task in tasks if task.agent_id == context.agent_id]
    asked = _newest(task for task in here if task.state in INTERRUPTED_STATES)
    return SessionStatus(context.agent.name, waiting, busy, asked or _newest(here), _asking_agent(context, waiting))


def status_html(context: Context) -> str:
    """The status as HTML: the sign in the head, and the composer."""
    about = {"status": session_status(context), "agent": context.agent, "session": context, "is_live": True}
    return render_to_string("conversations/_status.html", about)


def whole_status(context: Context) -> dict[str, str]:
    """All that changes with the status, as HTML: `status`, `timeline`, and `sign` in the sidebar."""
    newest = lineage.newest_task(context)
    timeline = small_timeline(newest) if newest else ""
    return {"status": status_html(context), "timeline": timeline, "sign": news_sign(newest.state if newest else None)}


def may_change_status(events: Iterable[Event]) -> bool:
    return any(
        event.type in STATUS_EVENTS or (event.type == EventType.AGENT_STATUS and "progress" not in event.payload)
        for event in events
    )


def _newest(tasks: Iterable[Task]) -> Task | None:
    return max(tasks, key=lambda task: task.first_event, default=None)


def _asking_agent(context: Context, waiting: Task | None) -> str:
    if waiting is None:
        return ""
    said = lineage.messages(context).filter(index=waiting.status_event, agent__isnull=False)
    return said.values_list("agent__name", flat=True).first() or waiting.agent.name
