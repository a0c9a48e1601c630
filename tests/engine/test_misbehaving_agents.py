"""A misbehaving agent's task ends with a clear message and a correct record."""

import base64

import pytest

from agentkit import Artifact, InputRequired
from agentkit import agent as described
from apps.engine import accept
from apps.engine.send import send
from apps.engine.turns.output import clean_parts
from apps.limits.models import Limit
from apps.record import wire
from apps.record.execution import Run
from apps.record.models import Artifact as ArtifactRow
from apps.record.models import Blob, Event, Message
from parley import db
from tests.engine.delegating import run_of, take_turn, words
from tests.working import types_of

pytestmark = pytest.mark.django_db(transaction=True)


async def failed(ada, agent, message, code):
    """The run of a failed task, which delivered nothing."""
    task = await take_turn(ada.principal, agent, message)
    run = await run_of(task)
    assert (task.state, run.state, run.error["code"]) == ("failed", Run.State.FAILED, code)
    assert not await db.run(ArtifactRow.objects.delivered().filter(task=task).exists)
    return task, run


@pytest.mark.parametrize("error", [RuntimeError, TimeoutError])
async def test_error_is_told_to_operators_only(ada, agent, said, error):
    async def raising(task):
        await task.artifact("draft").append("half")
        raise error("boom")

    task, run = await failed(ada, await agent(raising), said(), "agent_error")
    assert "boom" not in str(await db.run(wire.load_task, task))
    assert "boom" in run.error["message"]
    assert "Traceback" in run.error["traceback"]
    assert (await ArtifactRow.objects.aget()).state == ArtifactRow.State.DISCARDED


@pytest.mark.parametrize("kind", ["object", "nan", "memory", "chunk"])
async def test_what_is_no_json_fails_the_task(ada, agent, said, kind):
    async def nonsense(task):
        match task.message.text:
            case "memory":
                task.memory["thing"] = object()
            case "chunk":
                await task.artifact("data").append({"value": float("inf")})
        unfit = {"object": object(), "nan": {"value": float("nan")}}
        return unfit.get(task.message.text, "done")

    code = "agent_error" if kind == "chunk" else "invalid_agent_response"
    await failed(ada, await agent(nonsense), said(kind), code)


@pytest.mark.parametrize(
    ("kind", "code"), [("memory", "memory_too_large"), ("slot", "question_too_large"), ("progress", "too_large")]
)
async def test_too_much_of_anything_fails_the_task(ada, agent, said, kind, code):
    async def hoarding(task):
        much = "x" * 2 * 1024**2
        match task.message.text:
            case "memory":
                task.memory["much"] = much
            case "slot":
                return InputRequired("?", schema={"type": "string", "description": much})
            case "progress":
                await task.progress(much)
        return "done"

    task, _ = await failed(ada, await agent(hoarding), said(kind), code)
    assert "at most 1 MB" in words(task)


@pytest.mark.parametrize("is_full", [False, True])
async def test_failed_turn_keeps_what_the_agent_did(ada, agent, said, is_full):
    async def hoarding(task):
        await task.tool_call("add", {"a": 1})
        if is_full:
            await task.artifact("large").append("x" * 500_000)
        else:
            task.memory["much"] = "x" * 2 * 1024**2
        return "done"

    if is_full:
        await Limit.objects.acreate(workspace_id=ada.principal.workspace_id, storage_bytes=1)
    code = "storage_full" if is_full else "memory_too_large"
    task, _ = await failed(ada, await agent(hoarding), said(), code)
    types = await db.run(types_of, task.pk)
    assert ("agent_tool_call" in types, "artifact_update" in types) == (True, False)


async def test_text_that_no_database_takes_is_mended(ada, agent, said):
    def odd(text):
        return f"nul \0 and half a pair \ud83d of {text}"

    task = await take_turn(ada.principal, await agent(odd), said("something"))
    assert (task.state, words(task)) == ("completed", "nul \ufffd and half a pair \ufffd of something")


async def test_agent_that_cannot_be_loaded_fails_its_tasks(ada, echo, said):
    echo.handler = "tests.engine.agents:Gone"
    await echo.asave()
    task, _ = await failed(ada, echo, said(), "agent_unavailable")
    assert "Gone" not in words(task)
    ada.is_staff = True  # operators are told why
    await ada.asave()
    task, _ = await failed(ada, echo, said(), "agent_unavailable")
    assert "has no 'Gone'" in words(task)


@pytest.mark.parametrize("keep", [False, True])
async def test_tokens_are_joined_and_thoughts_kept_on_request(ada, agent, said, keep):
    async def talking(task):
        for number in range(200):
            await task.token(f"{number} ")
        await task.thought("hm")
        await task.tool_result(await task.tool_call("add", {"a": 1}), "add", 2)
        async with task.artifact("lines") as lines:
            for number in range(50):
                await lines.append(f"{number}\n")

    row = await take_turn(ada.principal, await agent(talking, keep_thoughts=keep), said())
    task, types = await db.run(wire.load_task, row), await db.run(types_of, row.pk)
    first, second = [artifact["parts"] for artifact in task["artifacts"]]
    assert first == [{"text": "".join(f"{n} " for n in range(200)), "mediaType": "text/plain"}]
    assert "".join(part.get("text", "") for part in second) == "".join(f"{n}\n" for n in range(50))
    assert types.count("agent_token") < 20
    assert (types.count("artifact_update"), types.count("agent_thought")) == (51, keep)
    assert types.count("agent_tool_call") == types.count("agent_tool_result") == 1


async def test_large_content_is_loaded_for_the_next_task(ada, agent, said):
    def large(text):
        return Artifact.bytes("large.bin", b"x" * 500_000, "application/octet-stream")

    def measuring(task):
        artifacts = [artifact for reference in task.references for artifact in reference.artifacts]
        return " ".join(map(str, [len(task.message.text), *(len(one.files[0].read()) for one in artifacts)]))

    made = await take_turn(ada.principal, await agent(large), said())
    assert (await ArtifactRow.objects.aget()).parts[0]["stored"]["size"] == 500_000
    [artifact] = (await db.run(wire.load_task, made))["artifacts"]
    assert base64.b64decode(artifact["parts"][0]["raw"]) == b"x" * 500_000
    message = said("y" * 300_000, referenceTaskIds=[str(made.pk)])
    assert words(await take_turn(ada.principal, await agent(measuring), message)) == "300000 500000"


async def test_memory_is_kept_between_turns_and_erased(ada, agent, said):
    async def remembering(task):
        task.memory.setdefault("seen", []).append(task.message.text)
        return InputRequired("More?") if len(task.memory["seen"]) < 2 else ", ".join(task.memory["seen"])

    keeper = await agent(remembering)
    task = await take_turn(ada.principal, keeper, said("a"))
    assert (await run_of(task)).memory == {"seen": ["a"]}
    task = await take_turn(ada.principal, keeper, said("b", taskId=str(task.pk)))
    assert words(task) == "a, b"
    runs = [run async for run in Run.objects.order_by("turn")]
    assert [run.memory for run in runs] == [{}, {}]
    assert all("seen" not in str(run.input) for run in runs), "a snapshot must not keep what is to be erased"


LARGE = base64.b64encode(b"a secret" * 50_000).decode()


@pytest.fixture
async def adas_file(ada, echo, said):
    """The stored form of Ada's file at another agent."""
    receipt = await db.run(accept.accept, ada.principal, echo, said(parts=[{"raw": LARGE, "filename": "secret.txt"}]))
    [part] = (await Message.objects.aget(context=receipt.context)).parts
    assert "stored" in part
    return part


async def forwarding(task):
    """Delivers the parts that the message names, or its files; with "streamed" as a stream."""
    parts = [part for value in task.message.data for part in value]
    if task.message.text == "streamed":
        for part in parts:
            await task.artifact("stream").append(part)
        return None
    return Artifact(parts or [file.part for file in task.files], "forwarded")


@pytest.mark.parametrize(("word", "code"), [("streamed", "agent_error"), ("whole", "invalid_agent_response")])
async def test_name_of_somebody_elses_file_fails_the_task(bob, agent, said, adas_file, word, code):
    parts = [{"text": word}, {"data": [adas_file]}]
    task, _ = await failed(bob, await agent(forwarding), said(parts=parts), code)
    assert not await db.run(Event.objects.filter(task=task, type="artifact_update").exists)
    assert await Blob.objects.acount() == 1


async def test_answer_cannot_name_somebody_elses_file(bob, agent, said, adas_file):
    @described(response_type="message")
    async def at_once(task):
        return Artifact([task.message.data[0][0]])

    answer = (await send(bob.principal, await agent(at_once), said(parts=[{"data": [adas_file]}]))).answer
    assert answer["metadata"]["error"] == {"code": "invalid_agent_response"}
    assert adas_file["stored"]["sha256"] not in str(answer)


def test_part_keeps_what_a2a_knows():
    part = {"raw": "-_8", "filename": "a", "mediaType": "b/c", "metadata": {"d": 1}, "kind": "file", "secret": 1}
    assert clean_parts([part]) == [{"raw": "+/8=", "filename": "a", "mediaType": "b/c", "metadata": {"d": 1}}]
    assert clean_parts([{"data": None}, {"text": "nul \0"}]) == [{"data": None}, {"text": "nul \ufffd"}]


@pytest.mark.parametrize(
    "part",
    [
        {"filename": "a.txt"},
        {"text": "a", "url": "https://example.com"},
        {"raw": "secret!"},
        {"raw": 5},
        {"url": None},
        {"text": "a", "filename": ["b"]},
        {"text": "a", "metadata": "b"},
        {"stored": {"sha256": "0" * 64, "size": 1, "kind": "raw"}},
        {"stored": "x"},
    ],
    ids=str,
)
def test_invalid_part_is_refused(part):
    with pytest.raises(ValueError, match=r"part|Stored"):
        clean_parts([part])
