"""The host gets a handler's output in order, also from threads."""

import pytest

from agentkit import (
    Artifact,
    Chunk,
    Completed,
    InputRequired,
    Message,
    Progress,
    Thought,
    Token,
    ToolCall,
    ToolResult,
    Usage,
    as_handler,
    drive,
    raw_part,
    testing,
)


async def async_speaker(task):
    await task.progress("Counting", 1, 3)
    await task.thought("Hm")
    call = await task.tool_call("look_up", {"word": "hm"})
    await task.tool_result(call, "look_up", "a sound")
    await task.token("Do")
    await task.usage("large", 1, 20, 5)
    async with task.artifact("log", description="d", metadata={"k": 1}) as log:
        await log.append("one")
        await log.append(b"two")
        await log.append({"n": 3})


def sync_speaker(task):
    task.progress("Counting", 1, 3)
    task.thought("Hm")
    call = task.tool_call("look_up", {"word": "hm"})
    task.tool_result(call, "look_up", "a sound")
    task.token("Do")
    task.usage("large", 1, 20, 5)
    with task.artifact("log", description="d", metadata={"k": 1}) as log:
        log.append("one")
        log.append(b"two")
        log.append({"n": 3})


@pytest.mark.parametrize("speaker", [async_speaker, sync_speaker])
async def test_everything_said_is_heard_in_order(speaker):
    run = await testing.run(speaker, "go")
    progress, thought, call, result, *rest = run.emissions[:6]
    assert (progress, thought) == (Progress("Counting", 1, 3), Thought("Hm"))
    assert call == ToolCall(call.call_id, "look_up", {"word": "hm"})
    assert result == ToolResult(call.call_id, "look_up", "a sound", is_error=False)
    assert rest == [Token("Do"), Usage("large", 1, 20, 5)]
    chunks = run.recorder.chunks
    assert [(one.append, one.last) for one in chunks] == [(False, False), (True, False), (True, False), (True, True)]
    assert [list(chunk.parts) for chunk in chunks] == [
        [{"text": "one"}],
        [{"raw": "dHdv", "filename": "log", "mediaType": "application/octet-stream"}],
        [{"data": {"n": 3}}],
        [],
    ]
    assert {(chunk.name, chunk.description) for chunk in chunks} == {("log", "d")}
    assert len({chunk.artifact_id for chunk in chunks}) == 1
    assert run.outcome == Completed()


async def test_an_error_leaves_an_artifact_open():
    async def closing(task):
        async with task.artifact("log", artifact_id="fixed", media_type="text/csv") as log:
            await log.append("only", last=True)
        with pytest.raises(ValueError, match="closed"):
            await log.append("more")

    async def breaking(task):
        async with task.artifact("log") as log:
            await log.append("half")
            raise OSError("disk full")

    text = {"text": "only", "mediaType": "text/csv"}
    assert (await testing.run(closing, "go")).emissions == [Chunk("fixed", "log", "", [text], append=False, last=True)]
    recorder = testing.Recorder()
    with pytest.raises(OSError, match="disk full"):
        await drive(as_handler(breaking), testing.task_for(testing.user_message("go"), recorder))
    assert [chunk.last for chunk in recorder.chunks] == [False]


def sync_generator(text):
    yield "To"
    yield Progress("half")
    yield Artifact.text("a.txt", "A")
    yield "ken"
    if text == "ask":
        yield InputRequired("Which?", slot="which")
        raise AssertionError("nothing comes after an outcome")


async def async_generator(text):
    for item in sync_generator(text):
        yield item


@pytest.mark.parametrize("generator", [sync_generator, async_generator])
async def test_a_generator_says_what_it_yields(generator):
    run = await testing.run(generator, "go")
    first, progress, chunk, last = run.emissions
    assert (first, progress, last) == (Token("To"), Progress("half"), Token("ken"))
    assert (chunk.name, chunk.append, chunk.last) == ("a.txt", False, True)
    assert run.said == "Token"
    assert [artifact.name for artifact in run.artifacts] == ["a.txt", "answer"]
    assert (await testing.run(generator, "ask")).outcome == InputRequired("Which?", slot="which")
    for wrong in (3, ["a"], None):
        with pytest.raises(TypeError, match="generator may yield"):
            await testing.run(lambda text, wrong=wrong: (one for one in [wrong]), "go")


async def test_all_files_go_from_nearest_to_farthest():
    def message(name, role="ROLE_USER"):
        return Message.from_wire({"messageId": name, "role": role, "parts": [raw_part(b"", name)]})

    earlier = await testing.run(lambda text: "ok", message("finished"))
    reference = earlier.as_reference(message("asked first"), message("not a person's", "ROLE_AGENT"))

    def names(task):
        return {"turn": [f.name for f in task.files], "all": [f.name for f in task.all_files]}

    run = await testing.run(names, message("now"), history=[message("old"), message("recent")], references=[reference])
    found = {"turn": ["now"], "all": ["now", "recent", "old", "finished", "asked first"]}
    assert run.artifacts[0].parts == [{"data": found}]


async def test_the_context_is_read_only_save_for_memory():
    async def handler(task):
        with pytest.raises(AttributeError):
            task.memory = {}
        return f"{task.attempt} {task.caller} {task.cancelled} {task.metadata}"

    assert (await testing.run(handler, "go")).said == "1 None False {}"
