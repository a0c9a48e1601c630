"""The log alone gives the rows, without gaps; differences are found, and the JSON of a task says what its rows say."""

import asyncio
import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit import Artifact, Completed, InputRequired
from apps.engine import accept
from apps.engine.send import send, wait_until_settled
from apps.record import ledger, projection, wire
from apps.record.errors import TaskNotFound
from apps.record.events import EventType
from apps.record.execution import Accepted, Run
from apps.record.models import Artifact as ArtifactRow
from apps.record.models import Context, Event, Message, Task
from apps.record.reading import feed, task_json
from apps.record.sql import TASK
from parley import db
from tests.archive.archiving import had_a_long_talk
from tests.working import begin, end

pytestmark = [pytest.mark.django_db, pytest.mark.services("what the database gives back is what the log says")]


@pytest.fixture
def context(ada, echo, said):
    return had_a_long_talk(ada, echo, said).pk


def rows_of(context):
    rows = [
        *Context.objects.filter(pk=context),
        *Task.objects.filter(context=context).order_by("created_at"),
        *Message.objects.filter(context=context),
        *ArtifactRow.objects.filter(task__context=context),
    ]
    return [projection.row_values(row) for row in rows]


def test_replay_gives_the_same_rows(context):
    before = rows_of(context)
    assert len(before) == 1 + 2 + 5 + 3
    rebuilt = projection.rebuild(context)
    for model in (Accepted, Run, ArtifactRow, Message, Task, Context):
        model.objects.all()._raw_delete("default")
    for row in rebuilt.rows():
        row.save(force_insert=True)
    assert rows_of(context) == before
    assert projection.differences(context) == []


def test_changed_rows_are_found(context):
    for model, change in [
        (Context, {"title": "other"}),
        (Task, {"first_event": 1000}),
        (Task, {"references": []}),
        (Message, {"parts": []}),
        (ArtifactRow, {"state": "discarded"}),
        (ArtifactRow, {"digest": ""}),
    ]:
        with transaction.atomic():
            model.objects.order_by("-pk").update(**change)
            found = projection.differences(context)
            transaction.set_rollback(True)
        assert found, change
        assert all(next(iter(change)) in line for line in found)
    assert projection.differences(context) == []


def test_stale_rows_take_nothing_back(context):
    read = Context.objects.get(pk=context)
    with ledger.writing(context) as log:
        log.add(EventType.SESSION_RENAMED, {"title": "Theirs"})
    with ledger.writing(read) as log:
        log.add(EventType.SESSION_ARCHIVED, {})
    row = Context.objects.get(pk=context)
    assert (row.title, row.archived_at is None) == ("Theirs", False)
    assert projection.differences(context) == []


def test_missing_and_extra_rows_are_found(context, capsys):
    call_command("replay", str(context))
    lost = Message.objects.filter(context=context, role=Message.Role.AGENT).first()
    lost.delete()
    assert projection.differences(context) == [f"Message {lost.index} is missing"]
    lost.index, lost.pk = 1000, uuid.uuid4()
    lost.save(force_insert=True)
    assert f"Message {lost.index} has no events" in projection.differences(context)
    with pytest.raises(CommandError):
        call_command("replay", str(context))


WRITERS, EACH = 8, 15


def write_often(context, name):
    try:
        for number in range(EACH):
            with ledger.writing(context) as log:
                for step in "ab":
                    log.add(EventType.SESSION_RENAMED, {"title": f"{name}.{number}{step}"})
    finally:
        connection.close()


def write_and_fail(context):
    with ledger.writing(context) as log:
        log.add(EventType.SESSION_RENAMED, {"title": "never"})
        raise RuntimeError("after an index was given out")


async def read_to(context, last):
    """A follower's indexes, up to `last`."""
    seen = []
    async with aclosing(feed.follow(context)) as batches:
        async for events in batches:
            seen += [event.index for event in events]
            if seen[-1] >= last:
                break
    return seen


@pytest.mark.django_db(transaction=True)
async def test_concurrent_writers_leave_no_gap(ada, echo, said):
    context = (await db.run(accept.accept, ada.principal, echo, said())).context
    last = 1 + WRITERS * EACH * 2
    readers = [asyncio.create_task(read_to(context, last)) for _ in range(3)]
    with ThreadPoolExecutor(WRITERS) as threads:
        loop = asyncio.get_running_loop()
        writing = [loop.run_in_executor(threads, write_often, context, n) for n in range(WRITERS)]
        with pytest.raises(RuntimeError):
            await db.run(write_and_fail, context)
        await asyncio.gather(*writing)
    for seen in await asyncio.gather(*readers):
        assert seen == list(range(1, last + 1))
    stored = await db.run(lambda: list(Event.objects.filter(context=context).values_list("index", flat=True)))
    assert stored == list(range(1, last + 1))
    assert await db.run(projection.differences, context) == []


@pytest.mark.django_db(transaction=True)
async def test_tasks_of_one_context_work_side_by_side(worker, ada, countdown, said):
    first = await send(ada.principal, countdown, said("1", contextId="shared"))
    await wait_until_settled(first.context, first.task, first.index, wire.load_task)
    sent = await asyncio.gather(*(send(ada.principal, countdown, said("2", contextId="shared")) for _ in range(16)))
    await asyncio.gather(*(wait_until_settled(one.context, one.task, one.index, wire.load_task) for one in sent))
    assert {one.context for one in sent} == {first.context}
    states = await db.run(lambda: set(Task.objects.values_list("state", flat=True)))
    assert states == {"completed"}
    assert await db.run(projection.differences, first.context) == []


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
NUMBER = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
VALUE = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)
)
OBJECT = st.dictionaries(TEXT, VALUE, max_size=3)
OUTCOME = st.builds(
    lambda said, made: Completed(said, [Artifact.text(f"{n} {name}", name) for n, name in enumerate(made)]),
    TEXT.filter(str.strip),
    st.lists(TEXT.filter(str.strip), max_size=3),
) | st.just(InputRequired("which?"))


def shown(task, length=None):
    return json.loads(task_json.find(task, length).json)


def check(task, *lengths):
    for length in lengths:
        assert shown(task, length) == json.loads(json.dumps(wire.load_task(TASK.one(task), history_length=length)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(text=TEXT, data=VALUE, metadata=OBJECT, signature=OBJECT, extensions=st.lists(TEXT, max_size=2), outcome=OUTCOME)
def test_task_text_is_what_its_rows_say(ada, echo, said, text, data, metadata, signature, extensions, outcome):
    parts = [{"text": text or "-"}, {"data": data, "metadata": metadata}]
    sent = accept.accept(ada.principal, echo, said() | {"parts": parts, "metadata": metadata, "extensions": extensions})
    held = begin(sent.run)
    check(sent.task, None)
    end(held, outcome)
    ArtifactRow.objects.filter(task=sent.task).update(
        signature=signature, metadata=metadata, extensions=extensions, description=text
    )
    check(sent.task, None, 0, 1, 2)


def test_unsettled_and_absent_tasks_are_told_apart(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said("hi"))
    assert len(shown(sent.task)["history"]) == 1
    assert task_json.find_settled(sent.task) is None
    assert task_json.find(uuid.uuid4()) is None
    with pytest.raises(TaskNotFound):
        task_json.find_settled(uuid.uuid4())
