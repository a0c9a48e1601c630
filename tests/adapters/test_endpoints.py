"""Endpoints are agents: chat completions, and addresses that take JSON."""

import json

import httpx2
import pytest

from agentkit import Completed, Failed, InputRequired, Thought, Usage, testing
from agentkit.adapters import http_endpoint, openai_endpoint
from agentkit.errors import AgentFailure
from agentkit.llm import Surroundings, use_surroundings
from agentkit.llm.models import surroundings

URL = "https://agents.example/v1"


@pytest.fixture
def answers():
    """Give it what the endpoint answers with; returns the requests."""
    before, heard = surroundings(), []

    def give(content="", kind="text/plain", status=200):
        def answer(request):
            heard.append(request)
            body = content if isinstance(content, bytes) else content.encode()
            return httpx2.Response(status, content=body, headers={"content-type": kind})

        transport = httpx2.MockTransport(answer)
        use_surroundings(Surroundings(http_client=lambda **options: httpx2.AsyncClient(transport=transport, **options)))
        return heard

    yield give
    use_surroundings(before)


def events(*pieces):
    return "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces) + "data: [DONE]\n\n"


def delta(text, **more):
    return {"choices": [{"delta": {"content": text}, **more}]}


def sent(requests):
    return json.loads(requests[-1].content)


STREAM = "text/event-stream; charset=utf-8"


def chat(**options):
    return openai_endpoint.agent(URL, model="large", **options)


async def test_chat_streams_and_is_the_answer(answers):
    used = {"usage": {"prompt_tokens": 3, "completion_tokens": 4}, "choices": []}
    requests = answers(events(delta("Good "), delta("day", finish_reason="length"), used), STREAM)
    run = await testing.run(chat(api_key="secret", options={"temperature": 0}), "hello")
    assert (run.text, run.outcome) == ("Good day", Completed())
    assert Usage("large", 1, 3, 4, is_cut_off=True) in run.emissions
    assert (str(requests[0].url), requests[0].headers["authorization"]) == (f"{URL}/chat/completions", "Bearer secret")
    assert sent(requests)["temperature"] == 0


async def test_chat_has_the_conversation_and_files(answers):
    requests = answers(events(delta("I see")), STREAM)
    earlier = [
        testing.user_message("first"),
        testing.Message.from_wire({"role": "ROLE_AGENT", "parts": [{"text": "1"}]}),
    ]
    await testing.run(chat(instructions="Be kind."), "Look", history=earlier, files={"a.png": b"png", "b.pdf": b"pdf"})
    system, first, second, newest = sent(requests)["messages"]
    assert [one["role"] for one in (system, first, second)] == ["system", "user", "assistant"]
    assert [one["type"] for one in newest["content"]] == ["text", "image_url", "file"]
    assert newest["content"][1]["image_url"]["url"] == "data:image/png;base64,cG5n"


async def test_chat_that_does_not_stream_answers(answers):
    message = {"content": "Good day", "reasoning_content": "Hm."}
    answers(json.dumps({"choices": [{"message": message}]}), "application/json")
    run = await testing.run(chat(), "hello")
    assert (run.text, run.emissions[0]) == ("Good day", Thought("Hm."))


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        ("Forbidden", "text/plain", 403),
        (events({"error": {"message": "Oh"}}), STREAM, 200),
        ("data: {\n\n", STREAM, 200),
    ],
)
async def test_errors_of_a_chat_fail_the_task(answers, content, kind, status):
    answers(content, kind, status)
    run = await testing.run(chat(), "hello")
    assert isinstance(run.outcome, Failed)
    assert run.outcome.code == "endpoint"


def program(**options):
    return http_endpoint.agent(URL, **options)


async def test_text_streams_and_is_the_answer(answers):
    requests = answers("Good day")
    run = await testing.run(program(headers={"x-key": "secret"}), "hello", history=[testing.user_message("first")])
    assert (run.text, run.outcome) == ("Good day", Completed(artifacts=[]))
    given = sent(requests)
    assert (given["message"], given["history"]) == ("hello", [{"role": "user", "text": "first"}])
    assert (given["context_id"], given["task_id"]) == (run.task.context_id, run.task.task_id)
    assert requests[0].headers["x-key"] == "secret"


@pytest.mark.parametrize(
    ("value", "said", "data"),
    [
        ("Hi", "Hi", []),
        ({"message": "Hi", "data": {"a": 1}}, "Hi", [{"a": 1}]),
        ({"a": 1}, "", [{"a": 1}]),
        ([1], "", [[1]]),
    ],
)
async def test_json_is_text_or_data(answers, value, said, data):
    answers(json.dumps(value), "application/json")
    run = await testing.run(program(), "hello")
    assert (run.said, [one for artifact in run.delivered for one in artifact.data]) == (said, data)


@pytest.mark.parametrize("kind", ["application/x-ndjson", "text/event-stream"])
async def test_lines_stream(answers, kind):
    said = [{"progress": "Looking…"}, {"token": "Sun"}, "ny", {"data": {"city": "Rome"}}]
    content = events(*said) if kind == "text/event-stream" else "\n".join(map(json.dumps, said))
    answers(content, kind)
    run = await testing.run(program(), "hello")
    assert (run.text, run.recorder.progress, run.delivered[0].data) == ("Sunny", ["Looking…"], [{"city": "Rome"}])


async def test_program_asks_and_gets_the_answer(answers):
    requests = answers(json.dumps({"question": "Which city?", "schema": {"enum": ["Rome"]}}), "application/json")
    asked = await testing.run(program(), "a trip")
    assert isinstance(asked.outcome, InputRequired)
    answers("Booked")
    run = await asked.answer("Rome")
    assert run.text == "Booked"
    assert len(requests) == 2
    assert (sent(requests)["message"], sent(requests)["task_id"]) == ("Rome", asked.task.task_id)


async def test_files_go_along(answers):
    requests = answers("ok")
    await testing.run(program(), "Look", files={"a.txt": b"text"})
    assert sent(requests)["files"] == [{"name": "a.txt", "media_type": "text/plain", "base64": "dGV4dA=="}]


async def test_error_of_the_program_is_said(answers):
    answers(json.dumps({"error": "No such city."}), "application/json")
    assert (await testing.run(program(), "hello")).outcome == Failed("No such city.", "endpoint")


async def test_within_parley_private_addresses_are_refused():
    task = testing.task_for(testing.user_message("hello"), testing.Recorder())
    with pytest.raises(AgentFailure) as failed:
        await http_endpoint.agent("http://127.0.0.1:9/").on_request(task)
    assert failed.value.code == "endpoint_unreachable"
    assert "OUTBOUND_ALLOW" in failed.value.detail
