"""What handlers of each form return, yield, raise and say becomes outcomes, artifacts and events, in order."""

from collections.abc import Callable
from typing import Any

import pytest

from agentkit import (
    AgentFailure,
    Artifact,
    AuthRequired,
    Completed,
    Failed,
    InputRequired,
    InvalidAnswer,
    Message,
    Progress,
    Rejected,
    SkillHandler,
    SyncTaskContext,
    TaskContext,
    Thought,
    Thread,
    Token,
    ToolCall,
    ToolResult,
    Usage,
    as_outcome,
    skill,
    testing,
    text_part,
)

End = Callable[[Any], Any]
GIVEN = {
    "text": ("text", str),
    "a message": ("message", None),
    "the task": ("task", None),
    "the history": ("history", None),
    "a thread": ("said", Thread),
    "a list of messages": ("said", list[Message]),
}
"""By its name or its annotation a parameter says what a function is given."""

ENDS = {
    "completed": (Completed("done", metadata={"n": 1}), Completed("done", metadata={"n": 1})),
    "asks": (InputRequired("which?", "word"), InputRequired("which?", "word")),
    "needs a credential": (AuthRequired("key?"), AuthRequired("key?")),
    "failed": (Failed("no", "broken"), Failed("no", "broken")),
    "rejected": (Rejected("never"), Rejected("never")),
    "fails by raising": (AgentFailure("no", "broken"), Failed("no", "broken")),
    "a state in JSON": (
        {"state": "auth-required", "prompt": "key?", "service": "calendar"},
        AuthRequired("key?", metadata={"prompt": "key?", "service": "calendar"}, service="calendar"),
    ),
}
VALUES = {
    "text": ("words", ["words"]),
    "a dict": ({"n": 1}, [{"n": 1}]),
    "an artifact": (Artifact.text("a", "words"), ["words"]),
    "artifacts": ([Artifact.text("a", "words"), Artifact.text("b", "more")], ["words", "more"]),
    "nothing": (None, []),
}


def functions(end: End, name: str = "text", annotation: Any = str) -> dict[str, Callable[..., Any]]:
    """The four kinds of functions, with a parameter of this name and annotation."""
    source = f"""
def function({name}): return end({name})
async def async_function({name}): return end({name})
def generator({name}):
    value = end({name})
    return value
    yield
async def async_generator({name}):
    value = end({name})
    for one in value if isinstance(value, list) else [] if value is None else [value]:
        yield one
"""
    scope: dict[str, Any] = {"end": end}
    exec(source, scope)
    found = {kind: scope[kind] for kind in ("function", "async_function", "generator", "async_generator")}
    for one in found.values():
        one.__annotations__ = {} if annotation is None else {name: annotation}
    return found


def methods(end: End) -> dict[str, type[SkillHandler]]:
    def taking(self: Any, task: SyncTaskContext) -> Any:
        return end(task)

    async def async_taking(self: Any, task: TaskContext) -> Any:
        return end(task)

    def generator(self: Any, task: SyncTaskContext) -> Any:
        return end(task)
        yield

    named = {form.__name__: {"on_request": form} for form in (taking, async_taking, generator)}
    named |= {f"skill {form.__name__}": {"only": skill()(form)} for form in (taking, async_taking)}
    return {name: type("Handler", (SkillHandler,), members) for name, members in named.items()}


async def each_form(value: Any):
    """Runs every form of handler that ends with the value; an exception is raised."""

    def end(given: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    for form, handler in {**functions(end), **methods(end)}.items():
        yield form, lambda handler=handler: testing.run(handler, "hello")


async def test_functions_get_what_their_parameter_says():
    for title, (name, annotation) in GIVEN.items():
        seen: list[Any] = []
        for kind, function in functions(seen.append, name, annotation).items():
            await testing.run(function, "hello", history=[testing.user_message("before")])
            given = seen.pop()
            if title in ("the history", "a thread", "a list of messages"):
                assert [one.text for one in given] == ["before", "hello"], (title, kind)
            else:
                text = given if title == "text" else given.text if title == "a message" else given.message.text
                assert text == "hello", (title, kind)


@pytest.mark.parametrize("name", ENDS)
async def test_every_outcome_comes_out_of_every_form(name):
    value, outcome = ENDS[name]
    async for form, run in each_form(value):
        assert (await run()).outcome == outcome, form


@pytest.mark.parametrize("name", VALUES)
async def test_every_plain_value_of_every_form_completes(name):
    value, contents = VALUES[name]
    async for form, run in each_form(value):
        done = await run()
        assert isinstance(done.outcome, Completed), form
        parts = [part for artifact in done.artifacts for part in artifact.parts]
        assert [part.get("text") or part.get("data") for part in parts] == contents, form


async def test_errors_of_every_form_are_told():
    async for _, run in each_form(RuntimeError("boom")):
        with pytest.raises(RuntimeError, match="boom"):
            await run()
    async for _, run in each_form(object()):
        with pytest.raises(InvalidAnswer, match="outcome"):
            await run()


def test_text_data_and_artifacts_complete():
    outcome = as_outcome("Forty-two")
    assert outcome.parts == [{"text": "Forty-two"}]
    (answer,) = outcome.artifacts
    assert (answer.name, answer.parts) == ("answer", [{"text": "Forty-two", "mediaType": "text/plain"}])
    assert as_outcome(None) == Completed()
    artifact = Artifact.text("notes.md", "# Notes", "text/markdown")
    assert as_outcome(artifact) == as_outcome([artifact]) == as_outcome((artifact,)) == Completed(None, [artifact])
    (answer,) = as_outcome({"total": 3}).artifacts
    assert (answer.name, answer.parts) == ("answer", [{"data": {"total": 3}}])
    outcome = InputRequired([text_part("a"), text_part("b")])
    assert as_outcome(outcome) is outcome
    assert outcome.parts == [{"text": "a"}, {"text": "b"}]
    for value in (3, True, b"bytes", [1], ["text"], object()):
        with pytest.raises(TypeError, match="may return an outcome"):
            as_outcome(value)


def test_a_files_kind_is_guessed_from_its_name(tmp_path):
    path = tmp_path / "chart.svg"
    path.write_bytes(b"<svg/>")
    assert Artifact.file(path).parts == [{"raw": "PHN2Zy8+", "filename": "chart.svg", "mediaType": "image/svg+xml"}]
    renamed = Artifact.file(path, "text/plain", "c.txt", description="A chart")
    assert (renamed.name, renamed.description) == ("c.txt", "A chart")
    assert renamed.parts[0]["mediaType"] == "text/plain"


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


async def test_the_context_is_read_only_save_for_memory():
    async def handler(task):
        with pytest.raises(AttributeError):
            task.memory = {}
        return f"{task.attempt} {task.caller} {task.cancelled} {task.metadata}"

    assert (await testing.run(handler, "go")).said == "1 None False {}"
