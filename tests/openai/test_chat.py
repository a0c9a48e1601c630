"""Chat completions, by OpenAI's own client."""

import base64
import json

import openai
import pytest
from django.test import AsyncClient

from apps.record import projection
from apps.record.models import Context, Task
from parley import db
from tests.clients.calling import followed
from tests.engine.delegating import until

pytestmark = pytest.mark.django_db(transaction=True)


def user(text, *more):
    return {"role": "user", "content": [{"type": "text", "text": text}, *more] if more else text}


def assistant(text):
    return {"role": "assistant", "content": text}


async def ask(client, *messages, model="speaking", **options):
    return await client.chat.completions.create(model=model, messages=list(messages), **options)


async def answer(client, *messages, **options):
    return (await ask(client, *messages, **options)).choices[0].message.content


def sessions():
    return Context.objects.count()


async def test_answers_come_whole_or_streamed(client, speaking, greeting, worker):
    completion = await ask(client, user("stream"))
    assert completion.choices[0].message.content == "One two three."
    assert completion.choices[0].finish_reason == "stop"
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (7, 3)
    assert await answer(client, user("Ada"), model="greeting") == "Hello, Ada."
    assert await answer(client, {"role": "system", "content": "Be brief."}, user("hi")) == "hi | told: Be brief."
    stream = await ask(client, user("stream"), stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == "One two three."
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.total_tokens == 10


async def test_thread_with_another_past_begins_a_session(client, speaking, worker):
    await answer(client, user("hello"))
    changed = await answer(client, user("hello"), assistant("An answer of somebody else."), user("again"))
    assert changed == "again | user: hello | agent: An answer of somebody else."
    assert await db.run(sessions) == 2
    assert [await db.run(projection.differences, one) for one in await db.run(list, keys())] == [[], []]
    after = [user("hello"), assistant("An answer of somebody else."), user("again"), assistant(changed), user("more")]
    assert (await answer(client, *after)).startswith("more | user: hello | agent: An answer of somebody else. | user:")
    assert await db.run(sessions) == 2, "it goes on with the copy"


def keys():
    return Context.objects.values_list("pk", flat=True)


async def test_same_key_is_answered_once(client, speaking, worker):
    first = await answer(client, user("hello"))
    thread = [user("hello"), assistant(first), user("again")]
    again = {"extra_headers": {"Idempotency-Key": "once"}}
    assert [await answer(client, *thread, **again) for _ in range(2)] == ["again | user: hello | agent: hello"] * 2
    assert (await db.run(sessions), await db.run(Task.objects.count)) == (1, 2)


async def test_a_named_session_takes_only_what_is_new(client, speaking, worker):
    await answer(client, user("one"), metadata={"session": "talk"})
    kept = await answer(client, user("whatever"), assistant("was said"), user("two"), metadata={"session": "talk"})
    assert kept == "two | user: one | agent: one"
    by_header = await answer(client, user("three"), extra_headers={"X-Parley-Session": "talk"})
    assert by_header.startswith("three | user: one | agent: one | user: two")


async def test_next_message_answers_a_question(client, speaking, worker):
    question = await answer(client, user("ask"))
    assert question == "Which word?"
    assert await answer(client, user("ask"), assistant(question), user("blue")) == "It was blue."
    assert await db.run(Task.objects.count) == 1


async def test_files_and_images_go_in(client, speaking, worker):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(b"12345").decode()}}
    data = base64.b64encode(b"a,b").decode()
    table = {"type": "file", "file": {"filename": "t.csv", "file_data": f"data:text/csv;base64,{data}"}}
    seen = await answer(client, user("look", image, table))
    assert "image/png 5" in seen
    assert "t.csv text/csv 3" in seen


async def test_files_are_links_that_expire(client, speaking, worker, settings):
    said = await answer(client, user("file"))
    assert said.startswith("One row.\n\nHere it is.\n\n[table.csv](")
    path = said.rpartition("(")[2].rstrip(")").removeprefix(settings.PUBLIC_BASE_URL)
    download = await AsyncClient().get(path)
    assert b"".join([piece async for piece in download.streaming_content]) == b"a,b\n1,2\n"
    assert (await AsyncClient().get(path.replace("/files/", "/files/x"))).status_code == 404
    settings.FILE_LINK_SECONDS = -1
    assert (await AsyncClient().get(path)).status_code == 404


async def test_a_client_that_leaves_stops_the_agent(ada_key, speaking, worker):
    body = json.dumps({"model": "speaking", "stream": True, "messages": [user("wait")]})
    headers = {"Authorization": f"Bearer {ada_key}"}
    response = await AsyncClient().post("/v1/chat/completions", body, "application/json", headers=headers)
    async with followed(response) as frames:
        async for frame in frames:
            if b"waiting" in frame:
                break
    task = await until(lambda: Task.objects.filter(state="canceled").first())
    assert task is not None


async def test_failure_is_an_error_that_nobody_repeats(client, speaking, worker):
    for words, error, code in (
        ("fail", openai.InternalServerError, "cannot"),
        ("decline", openai.UnprocessableEntityError, "rejected"),
    ):
        with pytest.raises(error) as raised:
            await ask(client, user(words))
        assert (raised.value.code, raised.value.response.headers["x-should-retry"]) == (code, "false")
        with pytest.raises(openai.APIError) as streamed:
            [chunk async for chunk in await ask(client, user(words), stream=True)]
        assert streamed.value.code == code
