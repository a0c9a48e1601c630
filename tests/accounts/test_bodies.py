"""Bodies are received once their caller is known, and large ones take turns."""

import asyncio
import json
import threading

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from django.conf import settings

from apps.accounts.models import ApiKey
from apps.accounts.requests import bodies
from apps.agents.models import Agent
from parley import db
from parley.asgi import application
from tests.a2a.calling import message

pytestmark = pytest.mark.django_db(transaction=True)
MORE = "x" * settings.ANONYMOUS_REQUEST_BYTES


async def answered(path, *sent, **headers):
    """The answer to a POST of which no more than `sent` ever comes."""
    named = {"host": "localhost", "content-type": "application/json", "a2a-version": "1.0", **headers}
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in named.items()]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": pairs}
    asked = ApplicationCommunicator(application, scope)
    for event in sent:
        await asked.send_input({"type": "http.request", **event})
    start = await asked.receive_output(10)
    body = (await asked.receive_output(10))["body"]
    asked.stop()
    return start["status"], body


async def test_without_a_key_a_body_is_small(ada, echo):
    await Agent.objects.filter(pk=echo.pk).aupdate(access=Agent.Access.PUBLIC)
    _, ada_key = await db.run(ApiKey.issue, ada, "test")
    params = {"message": message(MORE)}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}).encode()
    status, content = await answered("/a2a/echo", {"body": body}, content_length=str(len(body)))
    assert (status, "API key" in json.loads(content)["error"]["message"]) == (413, True)
    key = {"authorization": f"Bearer {ada_key}", "content_length": str(len(body))}
    assert (await answered("/a2a/echo", {"body": body[:-1]}, **key))[0] == 200


def test_a_page_takes_large_forms_of_people_alone(ada, client):
    client.force_login(ada)
    cookies = {"cookie": f"sessionid={client.cookies['sessionid'].value}"}
    form = {"content_type": "application/x-www-form-urlencoded", "content_length": str(len(MORE) + 1)}
    sent = {"body": MORE.encode() + b"x"}
    assert async_to_sync(answered)("/settings/profile", sent, **form)[0] == 413
    assert async_to_sync(answered)("/settings/profile", sent, **form, **cookies)[0] == 403, "no CSRF token"


async def test_a_caller_has_two_large_bodies_at_work():
    begun, go_on = threading.Semaphore(0), threading.Event()
    at_work = {"a": 0, "b": 0, "c": 0}
    lock = threading.Lock()

    def work(whose):
        with lock:
            at_work[whose] += 1
        begun.release()
        go_on.wait(30)

    async def send(whose):
        db.caller.set(whose)
        await bodies.work_on(bodies.LARGE_BYTES + 1, work, whose)

    sent = [asyncio.create_task(send(whose)) for whose in "aaaabbbc"]
    for _ in range(bodies.LARGE_AT_ONCE):
        assert await asyncio.to_thread(begun.acquire, timeout=30)
    assert at_work == {"a": 2, "b": 2, "c": 0}
    go_on.set()
    await asyncio.gather(*sent)
    assert at_work == {"a": 4, "b": 3, "c": 1}
