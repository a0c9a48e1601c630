"""Requests for another person's session get 404 and change nothing."""

import uuid

import pytest

from apps.record.models import Event, Task
from tests.web import telling

READ = [
    "/sessions/{session}" + ending
    for ending in (
        "", "/earlier?before=3", "/messages/1/0", "/timeline", "/tree", "/ways", "/as.md", "/files", "/queued",
        "/replay", "/replay/entries",
    )
]  # fmt: skip
READ += [
    "/sessions/{session}/artifacts/{task}/notes.md" + ending for ending in ("/0", "/0/preview", "/look", "/signature")
]
READ += [
    "/tasks/{task}" + ending
    for ending in ("", "/standing", "/timeline", "/events", "/events/1", "/documents/task", "/documents/curl")
]
DO = ["/sessions/{session}/messages", "/sessions/{session}/again", "/sessions/{session}/stop"]


def test_its_owner_reads_it_and_nobody_else_finds_it_not_even_an_operator(
    ada_browser, bob_browser, browser_of, bob, client, finished
):
    bob.is_staff = bob.is_superuser = True
    operator = browser_of(bob)
    for path in READ:
        address = path.format(session=finished.context, task=finished.task)
        assert ada_browser.get(address).status_code == 200, path
        assert bob_browser.get(address).status_code == 404, path
        nowhere = path.format(session=uuid.uuid4(), task=uuid.uuid4())
        assert ada_browser.get(nowhere).status_code == 404, path
        assert client.get(address)["Location"].startswith("/sign-in"), path
    assert ada_browser.get(f"/sessions/{finished.context}/task").url == f"/tasks/{finished.task}"
    assert bob_browser.get(f"/sessions/{finished.context}/task").status_code == 404
    bob.save()
    for path in READ:
        assert operator.get(path.format(session=finished.context, task=finished.task)).status_code == 404, path


@pytest.mark.django_db(transaction=True)
def test_nobody_else_does_anything_with_it_nor_with_its_task_through_a_session_of_their_own(
    bob_browser, bob, echo, client, finished
):
    own = telling.begun(bob, echo)
    before = Event.objects.count()
    for path in DO:
        form = {"message": str(uuid.uuid4()), "text": "mine now", "task": str(finished.task)}
        assert bob_browser.post(path.format(session=finished.context), form).status_code == 404, path
        assert client.post(path.format(session=finished.context), form).status_code == 401, path
        assert bob_browser.post(path.format(session=own.context), form).status_code == 404, path
    assert Event.objects.count() == before
    assert Task.objects.get(pk=finished.task).state == "completed"
