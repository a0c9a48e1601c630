"""An agent serves itself over A2A, without a platform."""

import asyncio
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from a2a.client import Client, ClientConfig
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.client_factory import ClientFactory
from a2a.types import a2a_pb2 as a2a
from pydantic import BaseModel

from agentkit import Artifact, Completed, InputRequired, SkillHandler, TaskContext, agent, as_handler
from agentkit.command import NEW_FILES, main
from agentkit.command import application as served_folder
from agentkit.command.folders import agent_at
from agentkit.serving import application
from agentkit.serving.protocol import Agent, Refused
from agentkit.serving.steering import URI
from agentkit.serving.tasks import COMPLETED, WORKING
from tests.a2a.talking import answer, kinds, request, states, text_of, updates
from tests.remote.scripted import serving_app

SOON = 20.0  # seconds


class Trip(BaseModel):
    to: str


class Travel(SkillHandler):
    """Books trips."""

    async def on_request(self, task: TaskContext) -> InputRequired:
        await task.progress("Looking at the map…")
        visits = task.session.memory["visits"] = task.session.memory.get("visits", 0) + 1
        return InputRequired(f"Where to? (question {visits})", slot=Trip)

    async def on_input_received(self, task: TaskContext, slot: Trip) -> Completed:
        return Completed(f"Booked: {slot.to}.", [Artifact.text("ticket.txt", f"To {slot.to}")])


async def counting(text: str) -> AsyncIterator[str]:
    """Counts."""
    for word in ("one ", "two ", "three"):
        yield word


@agent(name="Reply", response_type="message")
async def reply(text: str) -> str:
    return f"You said {text}."


class Listener(SkillHandler):
    """Answers with what it hears until it is asked to stop."""

    steerable = True

    async def on_request(self, task: TaskContext) -> Completed:
        heard = [message.text async for message in task.inbox]
        return Completed(" ".join([task.message.text, *heard]))


class Endless(SkillHandler):
    """Never ends."""

    async def on_request(self, task: TaskContext) -> None:
        await task.progress("Still here")
        await asyncio.Event().wait()


def broken(text: str) -> str:
    """Fails."""
    raise KeyError("secret")


@asynccontextmanager
async def talking(served: object) -> AsyncIterator[Client]:
    with serving_app(application(served)) as url:
        async with httpx.AsyncClient(timeout=SOON) as http:
            card = await A2ACardResolver(http, url).get_agent_card()
            card.supported_interfaces[0].url = url
            yield ClientFactory(ClientConfig(httpx_client=http)).create(card)


async def test_sdk_client_answers_questions_of_served_agent():
    async with talking(Travel) as talk:
        asked = await updates(talk, request("A trip"))
        assert states(asked) == [a2a.TASK_STATE_WORKING, a2a.TASK_STATE_INPUT_REQUIRED]
        assert text_of(asked[-1].status_update.status.message) == "Where to? (question 1)"
        ids = {"task_id": asked[0].task.id, "context_id": asked[0].task.context_id}
        done = await updates(talk, request("Rome", **ids))
        assert text_of(done[-1].status_update.status.message) == "Booked: Rome."
        task = await talk.get_task(a2a.GetTaskRequest(id=ids["task_id"]))
        assert [one.name for one in task.artifacts] == ["ticket.txt"]
        assert [text_of(one) for one in task.history] == ["A trip", "Where to? (question 1)", "Rome", "Booked: Rome."]


async def test_conversation_keeps_memory_between_tasks():
    async with talking(Travel) as talk:
        for visit in (1, 2):
            asked = await answer(talk, request("A trip", context_id="holiday"))
            assert f"(question {visit})" in text_of(asked.status_update.status.message)


async def test_tokens_stream_as_one_artifact():
    async with talking(counting) as talk:
        heard = await updates(talk, request("Count"))
        pieces = [one.artifact_update for one in heard if one.WhichOneof("payload") == "artifact_update"]
        assert [text_of(one.artifact) for one in pieces] == ["one ", "two ", "three", "one two three"]
        assert [(one.append, one.last_chunk) for one in pieces] == [
            (False, False), (True, False), (True, False), (False, True),
        ]  # fmt: skip
        assert len({one.artifact.artifact_id for one in pieces}) == 1
        task = await talk.get_task(a2a.GetTaskRequest(id=heard[0].task.id))
        assert [text_of(one) for one in task.artifacts] == ["one two three"]


async def test_message_agents_answer_without_a_task():
    async with talking(reply) as talk:
        said = await updates(talk, request("hello"))
        assert kinds(said) == ["message"]
        assert text_of(said[0].message) == "You said hello."


async def test_canceled_task_stops_its_handler():
    async with talking(Endless) as talk, aclosing(talk.send_message(request("go"))) as events:
        task_id = (await anext(events)).task.id
        canceled = await talk.cancel_task(a2a.CancelTaskRequest(id=task_id))
        assert canceled.status.state == a2a.TASK_STATE_CANCELED
        assert [one async for one in events][-1].status_update.status.state == a2a.TASK_STATE_CANCELED


async def test_handlers_error_fails_the_task_alone():
    async with talking(broken) as talk:
        said = (await answer(talk, request("hello"))).status_update.status
        assert said.state == a2a.TASK_STATE_FAILED
        assert text_of(said.message) == "The agent failed: its code raised KeyError."


def sent(text: str = "hello", **fields: object) -> dict[str, object]:
    return {"message": {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **fields}}


async def test_repeated_message_gets_the_same_task():
    served = Agent(Travel())
    same = sent()
    first, second = [await served.call("SendMessage", same) for _ in range(2)]
    assert first["task"]["id"] == second["task"]["id"]


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("SendMessage", sent(role="ROLE_AGENT"), -32602),
        ("SendMessage", sent(parts=[]), -32602),
        ("SendMessage", sent(parts=[{"text": "a", "url": "b"}]), -32602),
        ("SendMessage", sent(metadata=[]), -32602),
        ("SendMessage", sent(referenceTaskIds=[[]]), -32602),
        ("SendMessage", sent(taskId="unknown"), -32001),
        ("SendMessage", sent() | {"configuration": {"historyLength": -1}}, -32602),
        ("SendMessage", [], -32602),
        ("GetTask", {"id": ["a"]}, -32001),
        ("ListTasks", {"pageSize": 0}, -32602),
        ("ListTasks", {"pageToken": "9" * 5000}, -32602),
        ("CreateTaskPushNotificationConfig", {}, -32003),
        ("message/send", {}, -32601),
    ],
)
async def test_wrong_requests_are_refused(method, params, code):
    with serving_app(application(Travel)) as url:
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        async with httpx.AsyncClient() as http:
            said = (await http.post(url, json=body)).json()
    assert (said["id"], said["error"]["code"]) == (7, code)


NO_REQUESTS = [
    "{", "[]", '{"a": NaN}', '{"a": 1e999}', '{"a": 1, "a": 2}', "[" * 100_000, "[" * 90 + "]" * 90,
    '{"jsonrpc": "2.0"}', r'{"jsonrpc": "2.0", "method": "a", "id": "\ud800"}',
]  # fmt: skip


@pytest.mark.parametrize("body", NO_REQUESTS)
async def test_bodies_that_are_no_requests_are_refused(body):
    with serving_app(application(Travel)) as url:
        async with httpx.AsyncClient() as http:
            said = (await http.post(url, content=body, headers={"Content-Type": "application/json"})).json()
    assert said["error"]["code"] in (-32700, -32600)


async def test_token_and_host_are_checked():
    body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}
    with serving_app(application(Travel, token="secret", hosts=["127.0.0.1"])) as url:
        async with httpx.AsyncClient() as http:
            assert (await http.post(url, json=body)).status_code == 401
            known = {"Authorization": "Bearer secret"}
            assert (await http.post(url, json=body, headers=known)).status_code == 200
            assert (await http.post(url, json=body, headers={**known, "Host": "evil.example"})).status_code == 400


async def many(text: str) -> AsyncIterator[str]:
    """Says a lot at once."""
    for at in range(3000):
        yield f"{at} "


async def test_fast_agents_lose_nothing_of_their_stream():
    async with talking(many) as talk:
        heard = await updates(talk, request("Go on"))
        assert heard[-1].status_update.status.state == a2a.TASK_STATE_COMPLETED
        assert sum(one.WhichOneof("payload") == "artifact_update" for one in heard) == 3001


async def test_followers_that_do_not_read_are_left_behind(monkeypatch):
    monkeypatch.setattr("agentkit.serving.tasks.SLOW_SECONDS", 0.0)
    served = Agent(as_handler(many))
    stream = await served.call("SendStreamingMessage", sent())
    (task,) = served.conversations.by_task.values()
    await task.settled()
    assert task.state == COMPLETED
    heard = [one async for one in stream]
    assert 1 < len(heard) < 3000


async def test_late_subscribers_see_the_text_so_far():
    spoken, go_on = asyncio.Event(), asyncio.Event()

    async def halting(text: str) -> AsyncIterator[str]:
        yield "one "
        spoken.set()
        await go_on.wait()
        yield "two"

    served = Agent(as_handler(halting))
    begun = await served.call("SendMessage", sent() | {"configuration": {"returnImmediately": True}})
    await spoken.wait()
    late = await served.call("SubscribeToTask", {"id": begun["task"]["id"]})
    go_on.set()
    first, *others = [one async for one in late]
    (known,) = first["task"]["artifacts"]
    assert known["parts"] == [{"text": "one "}]
    assert others[0]["artifactUpdate"]["artifact"]["artifactId"] == known["artifactId"]
    assert others[0]["artifactUpdate"]["append"]


async def test_message_that_comes_twice_at_once_runs_once():
    asked = []

    @agent(response_type="message")
    async def slowly(text: str) -> str:
        asked.append(text)
        await asyncio.sleep(0)
        return "done"

    served, same = Agent(as_handler(slowly)), sent()
    first, second = await asyncio.gather(*(served.call("SendMessage", same) for _ in range(2)))
    assert first == second
    assert asked == ["hello"]


async def test_tasks_of_a_conversation_keep_each_others_memory():
    go_on = asyncio.Event()

    async def keeper(task: TaskContext) -> InputRequired | str:
        """Keeps what it is told."""
        if task.slot is not None:
            await go_on.wait()
        task.session.memory[task.message.text] = True
        return InputRequired("And then?") if task.message.text == "a" else str(sorted(task.session.memory))

    served = Agent(as_handler(keeper))
    asked = (await served.call("SendMessage", sent("a", contextId="c")))["task"]
    answered = asyncio.create_task(served.call("SendMessage", sent("b", taskId=asked["id"])))
    await served.call("SendMessage", sent("c", contextId="c"))
    go_on.set()
    await answered
    last = (await served.call("SendMessage", sent("d", contextId="c")))["task"]
    assert last["status"]["message"]["parts"] == [{"text": "['a', 'b', 'c', 'd']"}]


async def test_running_task_hears_messages_and_stops():
    served = Agent(Listener())
    events = await served.call("SendStreamingMessage", sent("one"))
    task_id = (await anext(events))["task"]["id"]
    with pytest.raises(Refused, match="asks nothing"):
        await served.call("SendMessage", sent("two", taskId=task_id))  # its caller would not learn what was read
    at_once = {"configuration": {"returnImmediately": True}}
    steered = sent("two", taskId=task_id, extensions=[URI]) | at_once
    for _ in range(2):
        assert (await served.call("SendMessage", steered))["task"]["status"]["state"] == WORKING
    read = {"read": [steered["message"]["messageId"]]}
    told = (await anext(events))["statusUpdate"]["metadata"]
    assert told == {URI: read}
    assert (await served.call("GetTask", {"id": task_id}))["metadata"] == {URI: read}
    stop = {"id": task_id, "metadata": {URI: {"afterStep": True}}}
    assert (await served.call("CancelTask", stop))["status"]["state"] == WORKING
    status = [one async for one in events][-1]["statusUpdate"]["status"]
    assert (status["state"], status["message"]["parts"]) == (COMPLETED, [{"text": "one two"}])
    with pytest.raises(Refused, match="completed"):
        await served.call("CancelTask", stop)


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentkit", *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_new_agent_passes_its_own_test(tmp_path):
    assert command("new", "none", cwd=tmp_path).returncode == 0
    assert {one.name for one in (tmp_path / "none").iterdir()} == set(NEW_FILES)
    assert agent_at(str(tmp_path / "none")).name == "None"
    done = command("test", "none", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["new", "1st"], "begin it with a letter"),
        (["new", "."], "name a new folder"),
        (["serve", "."], "one of handler: module:Name, command"),
        (["serve", "nowhere"], "has no agent.yaml"),
        (["serve", "no_module:Name"], "cannot be imported"),
        (["serve", "--host", "0.0.0.0", "."], "set a token"),
    ],
)
def test_mistakes_at_the_command_are_one_line(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.yaml").write_text("handler: builtins:len" if "0.0.0.0" in arguments else "name: Nobody")
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_folder_is_served_at_a_unix_socket(tmp_path):
    command("new", "shouter", cwd=tmp_path)
    process = subprocess.Popen([sys.executable, "-m", "agentkit", "serve", "shouter", "--uds", "s"], cwd=tmp_path)
    reached = httpx.HTTPTransport(uds=str(tmp_path / "s"), retries=7)  # while it starts
    try:
        with httpx.Client(transport=reached, timeout=SOON) as http:
            body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": sent("hello")}
            task = http.post("http://agent/", json=body).json()["result"]["task"]
    finally:
        process.terminate()
        process.wait(SOON)
    assert task["status"]["message"]["parts"] == [{"text": "HELLO"}]


async def test_broken_files_are_told_while_developing(tmp_path, monkeypatch):
    (tmp_path / "agent.yaml").write_text("handler: no_such_module:Gone\n")
    told = {"AGENT": str(tmp_path), "URL": "http://127.0.0.1/", "PAGE": "1", "HOSTS": "127.0.0.1", "TOKEN": ""}
    for name, value in told.items():
        monkeypatch.setenv(f"AGENTKIT_{name}", value)
    transport = httpx.ASGITransport(served_folder())
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.post("/", json=asked)
    assert "no_such_module" in answer.json()["result"]["task"]["status"]["message"]["parts"][0]["text"]
