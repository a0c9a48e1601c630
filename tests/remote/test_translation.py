"""Messages of remote agents become events of the record, once and without loss."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from agentkit import Chunk, Foreign, Progress, Thought, Token, ToolCall, ToolResult, WholeAnswer
from apps.remote.execution.translation import TaskTranslator
from tests.remote.scripted import artifact, made, now, task

TOLD = {"callId": "7", "name": "search", "arguments": {"q": "x"}}
FOUND = {"callId": "7", "name": "search", "result": [1], "isError": False}


def data(value):
    return [{"data": value}]


def test_the_table():
    foreign_call = data({"id": "1", "tool": "t", "input": {}, "model": "m"})
    about = {"description": "All", "metadata": {"m": 1}, "extensions": ["e"]}
    half_way = now("WORKING", "Half way", metadata={"progress": {"done": 1, "total": 2}})
    see = Progress("See", parts=[{"text": "See"}], message_id="m-See")
    for event, said in (
        (made("", "output_start"), []),
        (made("Hel", "output_delta"), [Token("Hel")]),
        (made("All of it", "full_output"), [Token("All of it")]),
        (made("Hm", "thinking_delta"), [Thought("Hm")]),
        (made("", "tool_call", parts=data(TOLD)), [ToolCall("7", "search", {"q": "x"})]),
        (made(json.dumps(TOLD), "tool_call"), [ToolCall("7", "search", {"q": "x"})]),
        (made("not JSON", "tool_call"), [ToolCall("tool_call", "tool", {"value": "not JSON"})]),
        (made("", "tool_call", parts=foreign_call), [ToolCall("1", "t", {}), Foreign({"tool_call": {"model": "m"}})]),
        (made("", "tool_result", parts=data(FOUND)), [ToolResult("7", "search", [1])]),
        (
            made("", "tool_result", parts=data({"name": "search", "error": "gone"})),
            [ToolResult("tool_result", "search", "gone", is_error=True)],
        ),
        (
            made("x", "report.md", id="r", **about, last=True),
            [Chunk("r", "report.md", "All", [{"text": "x"}], False, True, {"m": 1}, ["e"])],
        ),
        (made("x", "", id="r"), [Chunk("r", "", "", [{"text": "x"}], False, False)]),
        (half_way, [Progress("Half way", 1, 2, parts=[{"text": "Half way"}], message_id="m-Half way")]),
        (now("WORKING", "See", metadata={"x": 1}), [see, Foreign({"statusUpdate": {"metadata": {"x": 1}}})]),
        (now("SUBMITTED"), []),
        (now("COMPLETED", "Done."), []),
        (now("DREAMING"), [Foreign({"state": "TASK_STATE_DREAMING"})]),
        ({"newKind": {"a": 1}}, [Foreign({"newKind": {"a": 1}})]),
        ({"task": {**task(), "weather": "fine"}}, [Foreign({"task": {"weather": "fine"}})]),
        ({"task": {**task(), "metadata": {"m": 1}}}, [Foreign({"task": {"metadata": {"m": 1}}})]),
    ):
        assert TaskTranslator().event(event) == said


def test_other_parts_and_metadata_are_kept():
    picture = {"raw": "AA==", "mediaType": "image/png"}
    assert TaskTranslator().event(made("", "output_delta", parts=[{"text": "a"}, picture])) == [
        Token("a"),
        Chunk("output_delta", "output_delta", "", [picture], False, False),
    ]
    script = {"url": "javascript:alert(1)"}
    assert TaskTranslator().event(made("", "x", parts=[script])) == [
        Foreign({"parts": [script]}),
        Chunk("x", "x", "", [], False, False),
    ]
    event = now("WORKING", "", parts=[picture])
    event["statusUpdate"]["status"]["message"]["metadata"] = {"m": 1}
    [said] = TaskTranslator().event(event)
    assert (said.parts, said.metadata) == ([picture], {"m": 1})


def test_a_whole_answer_adds_what_its_pieces_lacked():
    heard = TaskTranslator()
    for text in ("Hel", "lo"):
        heard.event(made(text, "output_delta", id=text))
    assert heard.event(made("Hello", "full_output")) == []
    assert (heard.finish(), heard.answer) == ([], "Hello")
    heard = TaskTranslator()
    heard.event(made("Hel", "output_delta"))
    assert heard.event(made("Hello", "full_output")) == [Token("lo")]
    assert heard.event(made("lo", "output_delta", append=True)) == [], "a late piece of what is whole"
    heard = TaskTranslator()
    heard.event(made("Helo", "output_delta"))
    assert heard.event(made("Hello", "full_output")) == []
    assert heard.finish() == [WholeAnswer("Hello")], "one that differs takes the place of the pieces"
    heard = TaskTranslator()
    for key, text in (("1", "a"), ("3", "c")):
        heard.event(made(text, "output_delta", id=key))
    pieces = [artifact(text, "output_delta", id=key) for key, text in [("1", "a"), ("2", "b"), ("3", "c")]]
    assert heard.task(task(artifacts=pieces), final=True)[-1] == WholeAnswer("abc"), "a piece was lost"


def test_an_append_without_a_beginning_is_one():
    heard, late = TaskTranslator(), made("b", "x", append=True)
    [note, begun] = heard.event(late)
    assert note.said["artifactUpdate"].keys() == {"artifactId", "append", "digest"}
    assert (begun.parts, begun.append) == ([{"text": "b"}], False)
    [whole] = heard.task(task(artifacts=[artifact("ab", "x")]), final=True)
    assert (whole.parts, whole.append) == ([{"text": "ab"}], False)
    resumed = TaskTranslator(is_resumed=True)  # it waits for the whole
    [note] = resumed.event(late)
    assert isinstance(note, Foreign)
    [whole] = resumed.task(task(artifacts=[artifact("ab", "x")]))
    assert (whole.parts, whole.append) == ([{"text": "ab"}], False)


def test_a_fetched_task_adds_only_what_is_new():
    heard = TaskTranslator()
    heard.event(made("a", "x"))
    heard.event(made("b", "x", append=True))
    heard.event(made("Hi", "output_delta"))
    same = task(artifacts=[artifact("ab", "x"), artifact("Hi", "output_delta")])
    assert heard.task(same) == []
    more = task(artifacts=[artifact("abc", "x"), artifact("Hi there", "output_delta"), artifact("new", "y")])
    assert heard.task(more) == [
        Chunk("x", "x", "", [{"text": "c"}], True, False, joined=True),
        Token(" there"),
        Chunk("y", "y", "", [{"text": "new"}], False, False),
    ]
    other = task(artifacts=[artifact("right", "x")])
    assert heard.task(other) == []
    assert heard.task(other, final=True) == [Chunk("x", "x", "", [{"text": "right"}], False, False)], "at the end alone"


def test_artifacts_have_names_of_their_own():
    [chunk] = TaskTranslator(prefix="1a2b3c4d-").event(made("a", "x"))
    assert chunk.artifact_id == "1a2b3c4d-x"
    [chunk] = TaskTranslator().event(made("a", "x", id="k" * 500))
    assert len(chunk.artifact_id) == 64
    heard = TaskTranslator()
    assert heard.event(made("Hel", "output_delta", id="o")) == [Token("Hel")]
    assert heard.event(made("lo", "", id="o", append=True)) == [Token("lo")], "a later piece need not repeat the name"
    [chunk] = heard.event(made("x", "report.md", id="o", append=True))
    assert (chunk.name, chunk.append) == ("report.md", False), "under another name it begins"
    heard = TaskTranslator()
    heard.event(made("a", "x"))
    heard.event(made("b", "y", last=True))
    assert heard.finish() == [Chunk("x", "x", "", [], True, True)]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
parts = st.lists(
    st.fixed_dictionaries({"text": st.text()})
    | st.fixed_dictionaries({"data": json_values})
    | st.fixed_dictionaries({"raw": st.just("AA==")})
    | json_values,
    max_size=4,
)
names = st.sampled_from(["x", "output_delta", "full_output", "thinking_delta", "tool_call", "tool_result", ""])


@given(st.lists(st.tuples(names, parts, st.booleans(), st.booleans()), max_size=6))
def test_a_task_that_repeats_odd_things_adds_nothing(updates):
    heard, kept = TaskTranslator(), {}
    for name, given_parts, append, last in updates:
        heard.event(made("", name, id=name or "-", parts=given_parts, append=append, last=last))
        if append and name in ("x", "") and name not in kept:
            continue  # an artifact that never began
        known = kept.get(name, []) if append else []
        kept[name] = known + given_parts
    whole = [artifact("", name, id=name or "-", parts=pieces) for name, pieces in kept.items()]
    assert [one for one in heard.task(task(artifacts=whole)) if not isinstance(one, Foreign)] == []


@given(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=6), st.integers(0, 6), st.integers(0, 6))
def test_broken_streams_give_the_text_once(texts, heard_of, fetched):
    """`heard_of` pieces were streamed; then a task with `fetched` of them is fetched, then the rest is streamed."""
    heard, said = TaskTranslator(), []
    fetched = max(fetched, heard_of)
    for n, text in enumerate(texts[:heard_of]):
        said += heard.event(made(text, "x", append=n > 0))
    if texts[:fetched]:
        said += heard.task(task(artifacts=[artifact("".join(texts[:fetched]), "x")]))
    for n, text in enumerate(texts[fetched:], fetched):
        said += heard.event(made(text, "x", append=n > 0))
    assert "".join(part["text"] for one in said for part in one.parts) == "".join(texts)
    assert [one.append for one in said] == [n > 0 for n in range(len(said))]
