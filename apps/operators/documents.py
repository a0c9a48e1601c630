"""A task or run for operators: a timeline of its runs and events, and its whole JSON without secrets."""

from __future__ import annotations

import datetime
import json
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.operators import columns
from apps.record import wire
from apps.record.content.rendering import summarize
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.models import Event, Task
from parley.faces import cells

SHOWN_CHARACTERS = 20_000  # of a JSON on a page
NEWEST_LINES = 100
TOLD = (
    EventType.USER_MESSAGE,
    EventType.AGENT_START,
    EventType.AGENT_READ,
    EventType.STOP_REQUESTED,
    EventType.GUARDRAIL,
    EventType.AGENT_STATUS,
    EventType.AGENT_TOOL_CALL,
    EventType.AGENT_TOOL_RESULT,
    EventType.AGENT_COMPLETE,
    EventType.AGENT_FAILED,
    EventType.AGENT_CANCELLED,
    EventType.FEEDBACK,
)

Line = tuple[datetime.datetime, str, Any, float | None]  # time, id of the line, what, seconds


class Timeline:
    """A table of a panel: the newest runs and events of a task. An event lasts until the next one."""

    title = "Timeline"
    model = Event

    def __init__(self, task: Task) -> None:
        self._task = task

    def rendered(self) -> dict[str, Any]:
        lines = sorted(self._runs() + self._events(), key=lambda line: line[0], reverse=True)
        rows = [
            (key, (cells.relative_time(at), what, cells.duration(seconds) if seconds is not None else cells.NOTHING))
            for at, key, what, seconds in lines[:NEWEST_LINES]
        ]
        return {
            "title": self.title,
            "headings": ("time", "what", "duration"),
            "rows": rows,
            "is_cut": len(lines) > NEWEST_LINES,
            "all": cells.list_url(Event, task__id__exact=self._task.pk),
        }

    def _runs(self) -> list[Line]:
        found: list[Line] = []
        for run in self._task.runs.order_by("-turn").only(*RUN_TIMES)[:NEWEST_LINES]:
            link = cells.link(f"Turn {run.turn}", cells.page_url(Run, run.pk))
            waited = (run.started_at - run.queued_at).total_seconds() if run.started_at else None
            found.append((run.queued_at, f"queued-{run.pk}", format_html("{} queued", link), waited))
            if run.finished_at:
                took = columns.seconds_taken(run)
                found.append((run.finished_at, f"ended-{run.pk}", format_html("{} ended: {}", link, run.state), took))
        return found

    def _events(self) -> list[Line]:
        newest = Event.objects.filter(task=self._task, type__in=TOLD).order_by("-index")[: NEWEST_LINES + 1]
        found: list[Line] = []
        following: datetime.datetime | None = None
        for event in newest:
            link = cells.link(event.type.replace("_", " "), cells.page_url(Event, event.pk))
            what = format_html("{} {}", link, columns.gist(summarize(event)))
            seconds = (following - event.at).total_seconds() if following else None
            found.append((event.at, f"told-{event.pk}", what, seconds))
            following = event.at
        return found


RUN_TIMES = ("task", "turn", "state", "queued_at", "started_at", "finished_at")


def task_document(task: Task, *, with_messages: bool, with_artifacts: bool) -> str:
    """The task in A2A's JSON, with its newest messages and delivered artifacts if they are asked for."""
    document = wire.load_task(task, history_length=None if with_messages else 0)
    if not with_artifacts:
        document.pop("artifacts", None)
    return _text(document)


def run_document(run: Run) -> str:
    """All columns of the run."""
    return _text({field.name: getattr(run, field.attname) for field in Run._meta.concrete_fields})


def _text(value: Any) -> str:
    return columns.without_secrets(json.dumps(value, indent=2, ensure_ascii=False, cls=DjangoJSONEncoder))


def json_panel(text: str, url: str) -> SafeString:
    """The beginning of a JSON, a button that copies it, and a link to all of it."""
    shown = text[:SHOWN_CHARACTERS]
    is_cut = len(text) > len(shown)
    return format_html(
        '<p class="json-head"><button type="button" class="copy-all" data-copy="{}">{}</button> {}</p>'
        '<pre class="structure" tabindex="0">{}</pre>',
        shown,
        f"Copy the first {len(shown):,} characters" if is_cut else "Copy",
        cells.link(f"All {len(text):,} characters" if is_cut else "As a file", url),
        shown + ("…" if is_cut else ""),
    )


def json_response(text: str, name: str) -> HttpResponse:
    headers = {"Content-Disposition": f'inline; filename="{name}.json"', "X-Content-Type-Options": "nosniff"}
    return HttpResponse(text, content_type="application/json", headers=headers)
