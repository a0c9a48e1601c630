"""What must hold of a simulated history."""

from __future__ import annotations

from collections.abc import Iterator

from apps.record import projection
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.models import Artifact, Context, Event, Message, Task, TaskState
from tests.simulation.world import World


def problems_of(world: World) -> list[str]:
    """Each broken promise as a sentence."""
    return [*_lost(world), *_waiting(), *_ends(), *_artifacts(), *_logs(), *_views(world)]


def _lost(world: World) -> Iterator[str]:
    """An acknowledged message is in exactly one task, which it was acknowledged for."""
    for one in world.sent:
        assert one.receipt is not None
        rows = Message.objects.filter(message_id=one.message["messageId"], role=Message.Role.USER)
        tasks = list(rows.values_list("task", flat=True))
        if tasks != [one.receipt.task]:
            yield f"The message {one.message['messageId']} is in {tasks}, not in {one.receipt.task}."


def _waiting() -> Iterator[str]:
    """Everything has ended or asks, and each message had its turn."""
    for run in Run.objects.unfinished():
        yield f"The run {run.pk} is {run.state} for ever."
    for task in Task.objects.all():
        state = TaskState(task.state)
        if not state.is_settled:
            yield f"The task {task.pk} is {state} for ever."
        if state.is_terminal and state != TaskState.CANCELED:
            said = Message.objects.filter(task=task, role=Message.Role.USER).values_list("message_id", flat=True)
            begun = Event.objects.filter(task=task, type=EventType.AGENT_START)
            if set(said) - {event.payload["messageId"] for event in begun}:
                yield f"A message to {task.pk} had no turn before the task ended."


def _ends() -> Iterator[str]:
    """A task ends once, and nothing follows."""
    for task in Task.objects.all():
        events = list(Event.objects.filter(task=task).order_by("index"))
        ends = [one for one in events if _is_end(one)]
        if len(ends) != TaskState(task.state).is_terminal:
            yield f"The task {task.pk}, which is {task.state}, ended {len(ends)} times."
        if ends and events[-1] != ends[0]:
            yield f"Events follow the end of {task.pk}."


def _is_end(event: Event) -> bool:
    return event.type == EventType.AGENT_STATUS and TaskState(event.payload["state"]).is_terminal


def _artifacts() -> Iterator[str]:
    """A completed task delivers what it made; one that failed, or works still, delivers nothing."""
    for task in Task.objects.all():
        states = set(Artifact.objects.filter(task=task).values_list("state", flat=True))
        fit = {"delivered", "discarded"} if task.state == TaskState.COMPLETED else {"discarded"}
        if not states <= fit | (set() if TaskState(task.state).is_terminal else {"provisional"}):
            yield f"The task {task.pk}, which is {task.state}, has artifacts that are {states}."


def _logs() -> Iterator[str]:
    """Indexes have no gaps, and a replay gives the same rows."""
    for context in Context.objects.all():
        indexes = list(Event.objects.filter(context=context).order_by("index").values_list("index", flat=True))
        if indexes != list(range(1, context.last_event + 1)):
            yield f"The context {context.pk} has the events {indexes}."
        for difference in projection.differences(context.pk):
            yield f"A replay of {context.pk} differs: {difference}."


def _views(world: World) -> Iterator[str]:
    """What a follower has seen is the beginning of the log."""
    for one in world.followed:
        log = list(Event.objects.filter(context=one.context).order_by("index").values_list("index", "type"))
        if one.seen != log[: len(one.seen)]:
            yield f"A follower of {one.context} saw {one.seen}, not {log}."
