"""Archived sessions are listed as before, and restored on request."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit import Artifact, Completed
from apps.engine import accept
from apps.optional.archive.archiving import move_to_cold_storage
from apps.record.execution import Run
from apps.record.models import Artifact as ArtifactRow
from apps.record.models import Context, Task
from parley import db
from tests.archive.archiving import put_away
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def talk(ada: Any, echo: Any, said: Any) -> Context:
    sent = accept.accept(ada.principal, echo, said("first", contextId="talk"))
    end(begin(sent.run), Completed("done", [Artifact.text("answer", "made")]))
    return put_away(Context.objects.get(pk=sent.context))


def goes(talk: Context) -> None:
    move_to_cold_storage(talk.pk)
    assert not Task.objects.filter(context=talk).exists()


async def test_reading_restores_a_session_unchanged(ada_calls, bob_calls, talk):
    task = await db.run(Task.objects.get)
    run = await db.run(Run.objects.get)
    made = await db.run(ArtifactRow.objects.get)
    paths = [
        f"/sessions/{talk.pk}",
        f"/sessions/{talk.pk}?at=3",
        f"/sessions/{talk.pk}/messages",
        f"/sessions/{talk.pk}/events",
        f"/tasks/{task.pk}",
        f"/tasks?session={talk.pk}",
        f"/artifacts?session={talk.pk}",
        f"/artifacts/{task.pk}/{made.artifact_id}",
        f"/runs/{run.pk}",
    ]
    for path in paths:
        before = await ada_calls.get(path)
        assert before.status == 200, path
        await db.run(goes, talk)
        assert (await bob_calls.get(path)).status == 404, path
        assert await db.run(Context.objects.exclude(cold_file="").exists), f"{path}: a stranger moved it"
        assert (await ada_calls.get(path)).content == before.content, path


async def test_archived_session_is_listed_restored_and_deleted(ada_calls, talk):
    before = (await ada_calls.get("/sessions?archived=only")).body["items"]
    await db.run(goes, talk)
    assert (await ada_calls.get("/sessions?archived=only")).body["items"] == before
    assert [one["metadata"]["messageCount"] for one in before] == [2]
    assert await db.run(Context.objects.exclude(cold_file="").exists), "a list brings nothing back"
    answer = await ada_calls.post(f"/sessions/{talk.pk}/unarchive")
    assert (answer.status, answer.body["archivedAt"]) == (200, None)
    assert await db.run(Task.objects.filter(context=talk).exists)
    await db.run(lambda: goes(put_away(Context.objects.get(pk=talk.pk))))
    assert (await ada_calls.delete(f"/sessions/{talk.pk}")).status == 204
    assert (await ada_calls.get(f"/sessions/{talk.pk}")).status == 404
    assert not await db.run(Context.objects.exclude(cold_file="").exists)
