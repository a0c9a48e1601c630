"""Every outcome comes out of every form of handler."""

from types import SimpleNamespace

import pytest

from agentkit import (
    AgentFailure,
    Artifact,
    AuthRequired,
    Completed,
    Failed,
    InputRequired,
    InvalidAnswer,
    Rejected,
    Thread,
    testing,
)
from tests.agentkit.forms import FORMS

ENDS = {
    "completed": (Completed("done", metadata={"n": 1}), Completed("done", metadata={"n": 1})),
    "asking": (InputRequired("which?", "word"), InputRequired("which?", "word")),
    "needs a credential": (AuthRequired("key?"), AuthRequired("key?")),
    "failed": (Failed("no", "broken"), Failed("no", "broken")),
    "rejected": (Rejected("never"), Rejected("never")),
    "fails by raising": (AgentFailure("no", "broken"), Failed("no", "broken")),
}
VALUES = {
    "text": ("words", "words"),
    "a dict": ({"n": 1}, {"n": 1}),
    "an artifact": (Artifact.text("a", "words"), "words"),
    "artifacts": ([Artifact.text("a", "words"), Artifact.text("b", "more")], "words"),
    "nothing": (None, None),
}


def ending(value):
    """What a handler does with what it is given: note it, then raise or return `value`."""
    seen = []

    def end(given):
        seen.append(given)
        if isinstance(value, Exception):
            raise value
        return value

    return SimpleNamespace(end=end, seen=seen)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ENDS)
async def test_every_outcome_of_every_form(form, name):
    value, outcome = ENDS[name]
    ends = ending(value)
    run = await testing.run(FORMS[form](ends.end), "hello", history=[testing.user_message("before")])
    assert run.outcome == outcome
    assert [_text_of(given) for given in ends.seen] == ["hello"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", VALUES)
async def test_every_plain_value_of_every_form(form, name):
    value, content = VALUES[name]
    run = await testing.run(FORMS[form](ending(value).end), "hello")
    assert isinstance(run.outcome, Completed)
    if content is None:
        assert run.artifacts == []
        return
    (part,) = run.artifacts[0].parts
    assert content in (part.get("text"), part.get("data"))


@pytest.mark.parametrize("form", FORMS)
async def test_a_state_in_json_of_every_form(form):
    value = {"state": "auth-required", "prompt": "key?", "service": "calendar"}
    run = await testing.run(FORMS[form](ending(value).end), "hello")
    assert run.outcome == AuthRequired("key?", metadata={"prompt": "key?", "service": "calendar"}, service="calendar")


@pytest.mark.parametrize("form", FORMS)
async def test_errors_and_wrong_types_of_every_form_are_told(form):
    with pytest.raises(RuntimeError, match="boom"):
        await testing.run(FORMS[form](ending(RuntimeError("boom")).end), "hello")
    with pytest.raises(InvalidAnswer, match=r"outcome"):
        await testing.run(FORMS[form](ending(object()).end), "hello")


def _text_of(given):
    if isinstance(given, Thread | list):
        assert [one.text for one in given] == ["before", "hello"]
        return given[-1].text
    if isinstance(given, str):
        return given
    return given.text if hasattr(given, "text") else given.message.text
