"""A session with everything in it, as it is or as it was after any of its events."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from apps.api.shapes.artifacts import artifacts_json
from apps.api.shapes.events import Line, events_json
from apps.api.shapes.messages import messages_json
from apps.api.shapes.naming import JSON, slugs_of
from apps.api.shapes.sessions import said_of
from apps.api.shapes.tasks import tasks_json
from apps.record import lineage, replay
from apps.record.errors import ContextNotFound
from apps.record.models import Artifact, Context, Message, Task

SECTIONS = ("messages", "tasks", "artifacts", "events")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be shown: some of SECTIONS; of the events up to `most` after index `since`."""

    sections: Collection[str] = SECTIONS
    since: int = 0
    most: int = 1000

    def of_events(self, context: Context, upto: int) -> list[Line]:
        """The events, and one more where there is one."""
        if "events" not in self.sections:
            return []
        return Line.of(lineage.events(context, self.since, upto)[: self.most + 1])


@dataclass(frozen=True, slots=True)
class State:
    """The rows of a session as they are, or were; `reader` is the session itself, by which its log is found."""

    reader: Context
    context: Context
    messages: Sequence[Message]
    tasks: Sequence[Task]
    artifacts: Sequence[Artifact]


def whole_session(context: Context, wanted: Wanted, at: int | None = None) -> JSON:
    """The session after event `at`, by default as it is. A fixed number of queries. Raises ContextNotFound.

    While it changes, rows are those of different moments: then it is made from the log, which holds still.
    """
    if at is None:
        state, events = _now(context), wanted.of_events(context, context.last_event)
        newest = Context.objects.filter(pk=context.pk, deleted_at=None).values_list("last_event", flat=True).first()
        if newest == context.last_event:
            return _said(state, events, wanted)
    reached = context.last_event if at is None else at
    try:
        state = _then(context, reached)
    except Context.DoesNotExist:
        raise ContextNotFound from None
    return _said(state, wanted.of_events(context, reached), wanted)


def _now(context: Context) -> State:
    artifacts = list(lineage.artifacts(context))
    return State(context, context, _messages(context, context.last_event), lineage.shown_tasks(context), artifacts)


def _then(context: Context, at: int) -> State:
    """Messages do not change once they are said; everything else is folded anew."""
    rebuilt = replay.rebuild(context.pk, upto=at)
    tasks = sorted(rebuilt.tasks.values(), key=lambda task: task.first_event)
    delivered = [artifact for artifact in rebuilt.artifacts if artifact.state == Artifact.State.DELIVERED]
    return State(context, rebuilt.context, _messages(context, at), tasks, delivered)


def _messages(context: Context, upto: int) -> list[Message]:
    return list(lineage.messages(context).filter(index__lte=upto).order_by("index"))


def _said(state: State, events: list[Line], wanted: Wanted) -> JSON:
    session, context = state.reader.pk, state.context
    said: JSON = {"session": said_of(context, slugs_of([context.agent_id]), len(state.messages))}
    if "messages" in wanted.sections:
        said["messages"] = messages_json(state.reader, state.messages, context.last_event)
    if "tasks" in wanted.sections:
        said["tasks"] = tasks_json(session, state.tasks, state.artifacts)
    if "artifacts" in wanted.sections:
        said["artifacts"] = artifacts_json(session, state.artifacts)
    if "events" in wanted.sections:
        shown = events[: wanted.most]
        said["events"] = events_json(session, shown)
        said["nextEvents"] = shown[-1].index if len(events) > len(shown) else None
    return said
