"""The composer queues messages while an agent works."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

import db
from apps.engine import accept
from apps.features.queue.models import QueuedMessage
from tests.web.test_inbox import ask

pytestmark = pytest.mark.django_db(transaction=True)


async def test_words_and_files_wait_once_and_are_drawn_for_their_owner_alone(
    ada_at_work, ada, report, said, new_id, ada_browser, bob_browser
):
    working = await db.run(accept.accept, ada.principal, report, said("first"))
    form = {"message": new_id(), "text": "second"}
    for _ in range(2):
        file = SimpleUploadedFile("a.csv", b"a,b\n", "text/csv")
        answer = await ada_at_work.post(f"/sessions/{working.context}/queue", {**form, "files": file})
        assert answer.status_code == 201, answer.content
    row = await QueuedMessage.objects.aget()
    assert row.message_id == form["message"]
    assert [part.get("text") or part["filename"] for part in row.parts] == ["second", "a.csv"]
    await ada_at_work.post(f"/sessions/{working.context}/queue", {"message": new_id(), "text": "<i>second</i>"})
    address = f"/sessions/{working.context}/queued"
    drawn = await db.run(lambda: ada_browser.get(address).content.decode())
    assert "&lt;i&gt;second&lt;/i&gt;" in drawn
    page = await db.run(lambda: ada_browser.get(f"/sessions/{working.context}").content.decode())
    assert "&lt;i&gt;second&lt;/i&gt;" in page
    assert (await db.run(lambda: bob_browser.get(address))).status_code == 404


async def test_nothing_to_say_and_somebody_elses_session_are_refused(ada_at_work, ada, bob, report, said, new_id):
    theirs = await db.run(ask, bob, report)
    answer = await ada_at_work.post(f"/sessions/{theirs.context}/queue", {"message": new_id(), "text": "a"})
    assert answer.status_code == 404
    mine = await db.run(accept.accept, ada.principal, report, said("first"))
    answer = await ada_at_work.post(f"/sessions/{mine.context}/queue", {"message": new_id(), "text": " "})
    assert answer.status_code == 422
    assert not await QueuedMessage.objects.aexists()
