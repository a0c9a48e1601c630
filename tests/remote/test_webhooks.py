"""A webhook with the right token only makes Parley fetch the task."""

import asyncio
import uuid
from typing import Any

import httpx
import pytest

from apps.accounts.requests import quotas
from apps.record.reading import notifications
from apps.remote.execution import webhooks
from apps.remote.execution.webhooks import TOKEN_HEADER, webhook_config
from parley.asgi import application

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("nudges go over the channel layer")]

JSON = dict[str, Any]


@pytest.fixture
async def agent():
    """Calls Parley, as it is served."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application)) as client:
        yield client


@pytest.fixture
async def nudged():
    """The runs that are nudged."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    end = notifications.on_nudge(lambda run: loop.call_soon_threadsafe(heard.put_nowait, run))
    yield heard
    end()


def token(config: JSON) -> dict[str, str]:
    return {TOKEN_HEADER: config["token"]}


def bearer(config: JSON) -> dict[str, str]:
    return {"Authorization": f"Bearer {config['authentication']['credentials']}"}


async def test_the_right_token_nudges_whatever_is_said(agent, nudged):
    for ways in ((token,), (bearer,), (token, bearer)):
        run = uuid.uuid4()
        config = webhook_config(run)
        headers = {name: value for way in ways for name, value in way(config).items()}
        answer = await agent.post(config["url"], content=b'{"task": {"id": "someone else\'s"', headers=headers)
        assert (answer.status_code, answer.content) == (204, b"")
        assert await asyncio.wait_for(nudged.get(), 20) == str(run)


async def test_wrong_tokens_look_like_missing_runs(agent, nudged):
    run = uuid.uuid4()
    config, other = webhook_config(run), webhook_config(uuid.uuid4())
    wrong = [
        {},
        token(other),
        {TOKEN_HEADER: config["token"][:-1]},
        {TOKEN_HEADER: "ü".encode()},
        {**token(config), "Authorization": "Bearer wrong"},
        {**token(config), "Authorization": f"Basic {config['token']}"},
    ]
    answers = [await agent.post(config["url"], headers=headers) for headers in wrong]
    answers.append(await agent.post(other["url"], headers=token(config)))
    assert {(answer.status_code, answer.text) for answer in answers} == {(404, "There is nothing at this address.")}
    assert (await agent.post(config["url"].replace(str(run), "no-run"), headers=token(config))).status_code == 404
    assert (await agent.get(config["url"], headers=token(config))).status_code == 405
    assert nudged.empty()


async def test_callers_and_bodies_are_bounded(agent, nudged, settings, monkeypatch):
    settings.MAX_REQUEST_BYTES = 1000
    config = webhook_config(uuid.uuid4())
    answer = await agent.post(config["url"], content=b"x" * 1001, headers=token(config))
    assert (answer.status_code, nudged.empty()) == (413, True)
    monkeypatch.setattr(quotas, "request_counter", quotas.RequestCounter())
    settings.ANONYMOUS_REQUESTS_PER_MINUTE = 2
    settings.CHANNEL_LAYER_URL = "memory://"  # otherwise requests of other tests in this minute count too
    statuses = [(await agent.post(config["url"], headers={TOKEN_HEADER: "guess"})).status_code for _ in range(3)]
    assert statuses == [404, 404, 429]


async def test_tokens_outlive_a_replaced_secret_key(agent, settings):
    config = webhook_config(uuid.uuid4())
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another " * 8
    assert (await agent.post(config["url"], headers=token(config))).status_code == 204
    settings.SECRET_KEY_FALLBACKS = []
    assert (await agent.post(config["url"], headers=token(config))).status_code == 404


async def test_frequent_calls_are_merged_into_one(agent, nudged, monkeypatch):
    monkeypatch.setattr(webhooks, "NUDGE_INTERVAL_SECONDS", 0.5)
    chatty, other = webhook_config(uuid.uuid4()), webhook_config(uuid.uuid4())
    for config in (*[chatty] * 5, other):
        assert (await agent.post(config["url"], headers=token(config))).status_code == 204
    heard = [await asyncio.wait_for(nudged.get(), 20) for _ in range(3)]
    assert heard == [chatty["id"], other["id"], chatty["id"]]
    assert nudged.empty()
