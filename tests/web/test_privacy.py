"""Somebody else's session is not found, whatever is asked of it; and nothing that is asked of it happens."""

import uuid

import pytest

from apps.conversations.models import Event, Task
from tests.web import telling

SESSION = "/sessions/{session}"
READ = [
    SESSION,
    SESSION + "/earlier?before=3",
    SESSION + "/messages/1/0",
    SESSION + "/artifacts/{task}/notes.md/0",
    SESSION + "/artifacts/{task}/notes.md/0/preview",
]
DO = [SESSION + "/messages", SESSION + "/again", SESSION + "/stop"]


@pytest.fixture
def address(finished):
    return lambda path: path.format(session=finished.context, task=finished.task)


@pytest.mark.parametrize("path", READ)
def test_its_owner_may_read_it(ada_browser, address, path):
    assert ada_browser.get(address(path)).status_code == 200


@pytest.mark.parametrize("path", READ)
def test_somebody_else_finds_nothing(bob_browser, address, path):
    assert bob_browser.get(address(path)).status_code == 404


@pytest.mark.parametrize("path", READ)
def test_an_operator_finds_nothing_either(browser_of, bob, address, path):
    bob.is_staff = bob.is_superuser = True
    bob.save()
    assert browser_of(bob).get(address(path)).status_code == 404


@pytest.mark.parametrize("path", READ)
def test_nobody_reads_without_signing_in(client, address, path):
    answer = client.get(address(path))
    assert answer.status_code == 302
    assert answer["Location"].startswith("/sign-in")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", DO)
def test_nobody_else_may_do_anything_with_it(bob_browser, client, address, finished, path):
    before = Event.objects.count()
    form = {"message": str(uuid.uuid4()), "text": "mine now", "task": str(finished.task)}
    assert bob_browser.post(address(path), form).status_code == 404
    assert client.post(address(path), form).status_code == 401
    assert Event.objects.count() == before


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", DO)
def test_a_task_of_another_session_cannot_be_reached_through_ones_own(bob_browser, bob, echo, finished, path):
    own = telling.begun(bob, echo)
    form = {"message": str(uuid.uuid4()), "text": "hello", "task": str(finished.task)}
    assert bob_browser.post(path.format(session=own.context), form).status_code == 404
    assert Task.objects.get(pk=finished.task).state == "completed"
