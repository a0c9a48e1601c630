"""A webhook with the right token only makes Parley fetch the task."""

import asyncio
import socket
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn
from a2a.server.context import ServerCallContext
from a2a.server.tasks import BasePushNotificationSender, InMemoryPushNotificationConfigStore
from a2a.types import TaskPushNotificationConfig, TaskState, TaskStatus, TaskStatusUpdateEvent
from google.protobuf.json_format import ParseDict

from apps.accounts import quotas
from apps.record import notifications
from apps.remote.execution import webhooks
from apps.remote.execution.webhooks import TOKEN_HEADER, webhook_config
from config.asgi import application

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("nudges go over the channel layer")]


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # early clients wait for the server
        config = uvicorn.Config(application, log_config=None, lifespan="off", ws="none")
        at = uvicorn.Server(config)
        thread = threading.Thread(target=at.run, args=[[listening]], daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        at.should_exit = True
        thread.join(10)


@pytest.fixture
def base(served: str, settings: Any) -> str:
    settings.PUBLIC_BASE_URL = served
    return served


class Nudged:
    def __init__(self) -> None:
        self.runs: list[str] = []
        self._grown = threading.Condition()

    def take(self, run_id: str) -> None:
        with self._grown:
            self.runs.append(run_id)
            self._grown.notify_all()

    def have(self, number: int) -> list[str]:
        with self._grown:
            assert self._grown.wait_for(lambda: len(self.runs) >= number, 20)
        return self.runs


@pytest.fixture
def nudged() -> Iterator[Nudged]:
    heard = Nudged()
    end = notifications.on_nudge(heard.take)
    yield heard
    end()


@pytest.mark.usefixtures("base")
def test_the_right_token_makes_whoever_waits_look_whatever_else_is_said(nudged):
    token = lambda config: {TOKEN_HEADER: config["token"]}  # noqa: E731
    bearer = lambda config: {"Authorization": f"Bearer {config['authentication']['credentials']}"}  # noqa: E731
    for ways in ((token,), (bearer,), (token, bearer)):
        run = uuid.uuid4()
        config = webhook_config(run)
        headers = {name: value for way in ways for name, value in way(config).items()}
        answer = httpx.post(config["url"], content=b'{"task": {"id": "someone else\'s"', headers=headers)
        assert (answer.status_code, answer.content) == (204, b"")
        assert nudged.have(1) == [str(run)]
        nudged.runs.clear()


@pytest.mark.usefixtures("base")
def test_a_wrong_token_is_not_told_from_a_run_that_is_not_there(nudged):
    run = uuid.uuid4()
    config, other = webhook_config(run), webhook_config(uuid.uuid4())
    right = {TOKEN_HEADER: config["token"]}
    answers = [
        httpx.post(config["url"]),
        httpx.post(config["url"], headers={TOKEN_HEADER: other["token"]}),
        httpx.post(config["url"], headers={TOKEN_HEADER: config["token"][:-1]}),
        httpx.post(config["url"], headers={TOKEN_HEADER: "ü".encode()}),
        httpx.post(config["url"], headers={**right, "Authorization": "Bearer wrong"}),
        httpx.post(config["url"], headers={**right, "Authorization": f"Basic {config['token']}"}),
        httpx.post(config["url"].replace(str(run), str(uuid.uuid4())), headers=right),
    ]
    assert {(answer.status_code, answer.text) for answer in answers} == {(404, "There is nothing at this address.")}
    assert httpx.post(config["url"].replace(str(run), "no-run"), headers=right).status_code == 404
    assert httpx.get(config["url"], headers=right).status_code == 405
    assert httpx.post(config["url"], headers=right).status_code == 204
    assert nudged.have(1) == [str(run)]


@pytest.mark.usefixtures("base")
def test_callers_and_what_they_say_are_bounded(nudged, settings, monkeypatch):
    settings.MAX_REQUEST_BYTES = 1000
    config = webhook_config(uuid.uuid4())
    answer = httpx.post(config["url"], content=b"x" * 1001, headers={TOKEN_HEADER: config["token"]})
    assert (answer.status_code, nudged.runs) == (413, [])
    monkeypatch.setattr(quotas, "request_counter", quotas.RequestCounter())
    settings.ANONYMOUS_REQUESTS_PER_MINUTE = 2
    settings.CHANNEL_LAYER_URL = "memory://"  # otherwise requests of other tests in this minute count too
    statuses = [httpx.post(config["url"], headers={TOKEN_HEADER: "guess"}).status_code for _ in range(3)]
    assert statuses == [404, 404, 429]


@pytest.mark.usefixtures("base")
def test_a_key_that_was_replaced_is_good_for_what_it_was_used_for(nudged, settings):
    config = webhook_config(uuid.uuid4())
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another " * 8
    assert httpx.post(config["url"], headers={TOKEN_HEADER: config["token"]}).status_code == 204
    settings.SECRET_KEY_FALLBACKS = []
    assert httpx.post(config["url"], headers={TOKEN_HEADER: config["token"]}).status_code == 404


@pytest.mark.usefixtures("base")
def test_who_says_it_too_often_is_heard_once_more_at_the_end(nudged, monkeypatch):
    monkeypatch.setattr(webhooks, "NUDGE_INTERVAL_SECONDS", 0.5)
    chatty, other = webhook_config(uuid.uuid4()), webhook_config(uuid.uuid4())
    for _ in range(5):
        assert httpx.post(chatty["url"], headers={TOKEN_HEADER: chatty["token"]}).status_code == 204
    assert httpx.post(other["url"], headers={TOKEN_HEADER: other["token"]}).status_code == 204
    assert nudged.have(3) == [chatty["id"], other["id"], chatty["id"]]


@pytest.mark.usefixtures("base")
async def test_the_sdks_server_tells_it(nudged):
    run = uuid.uuid4()
    store = InMemoryPushNotificationConfigStore()
    config = ParseDict(webhook_config(run), TaskPushNotificationConfig())
    await store.set_info("their task", config, ServerCallContext())
    async with httpx.AsyncClient() as client:
        sender = BasePushNotificationSender(client, store)
        status = TaskStatus(state=TaskState.TASK_STATE_COMPLETED)
        event = TaskStatusUpdateEvent(task_id="their task", context_id="theirs", status=status)
        await sender.send_notification("their task", event)
    assert await asyncio.to_thread(nudged.have, 1) == [str(run)]


async def test_who_takes_a_run_up_again_is_nudged_when_the_one_before_has_ended():
    before, again = webhooks.nudges_of("run"), webhooks.nudges_of("run")
    with before:
        nudged = again.__enter__()
    webhooks._wake("run")
    async with asyncio.timeout(1):
        await nudged.wait()
    again.__exit__(None, None, None)
