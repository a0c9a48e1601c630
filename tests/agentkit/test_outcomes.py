"""Returns, yields and exceptions of each form of handler become outcomes and artifacts."""

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
    Rejected,
    SkillHandler,
    SyncTaskContext,
    TaskContext,
    Thread,
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
