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
        (made("lo", "output_end"), [Token("lo")]),
        (made("All of it", "full_output"), [Token("All of it")]),
        (made("", "thinking_start"), []),
        (made("Hm", "thinking_delta"), [Thought("Hm")]),
        (made(".", "thinking_end"), [Thought(".")]),
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


def test_what_is_no_part_of_words_or_of_the_web_is_kept():
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
    stored = {"stored": {"sha256": "0" * 64, "size": 1, "kind": "raw"}}
    assert Foreign({"parts": [stored]}) in TaskTranslator().event(made("", "x", parts=[stored]))


def test_progress_has_the_parts_and_metadata_that_the_agent_gave_it():
    chart = {"data": {"done": 1}}
    event = now("WORKING", "", parts=[chart], metadata=None)
    event["statusUpdate"]["status"]["message"]["metadata"] = {"m": 1}
    [said] = TaskTranslator().event(event)
    assert (said.parts, said.metadata) == ([chart], {"m": 1})


def test_the_whole_answer_is_not_said_again_where_its_pieces_came_and_what_they_lacked_is():
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


def test_an_append_without_a_beginning_is_the_beginning():
    heard, late = TaskTranslator(), made("b", "x", append=True)
    [note, begun] = heard.event(late)
    assert note.said["artifactUpdate"].keys() == {"artifactId", "append", "digest"}
    assert (begun.parts, begun.append) == ([{"text": "b"}], False)
    [whole] = heard.task(task(artifacts=[artifact("ab", "x")]), final=True)
    assert (whole.parts, whole.append) == ([{"text": "ab"}], False)


def test_a_resumed_turn_waits_for_the_whole_artifact():
    heard = TaskTranslator(is_resumed=True)
    [note] = heard.event(made("b", "x", append=True))
    assert isinstance(note, Foreign)
    assert heard.finish() == []
    [whole] = heard.task(task(artifacts=[artifact("ab", "x")]))
    assert (whole.parts, whole.append) == ([{"text": "ab"}], False)


def test_what_a_fetched_task_says_again_is_not_said_again():
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


def test_what_a_fetched_task_says_differently_counts_at_the_end_alone():
    heard = TaskTranslator()
    heard.event(made("wrong", "x"))
    other = task(artifacts=[artifact("right", "x")])
    assert heard.task(other) == []
    assert heard.task(other, final=True) == [Chunk("x", "x", "", [{"text": "right"}], False, False)]


def test_an_answer_of_which_a_piece_was_lost_is_whole_in_the_end():
    heard = TaskTranslator()
    heard.event(made("a", "output_delta", id="1"))
    heard.event(made("c", "output_delta", id="3"))
    pieces = [artifact(text, "output_delta", id=key) for key, text in [("1", "a"), ("2", "b"), ("3", "c")]]
    said = heard.task(task(artifacts=pieces), final=True)
    assert said[-1] == WholeAnswer("abc")


def test_artifacts_are_closed_when_the_task_completes():
    heard = TaskTranslator()
    heard.event(made("a", "x"))
    heard.event(made("b", "y", last=True))
    assert heard.finish() == [Chunk("x", "x", "", [], True, True)]


def test_artifacts_of_several_remote_tasks_do_not_clash():
    [chunk] = TaskTranslator(prefix="1a2b3c4d-").event(made("a", "x"))
    assert chunk.artifact_id == "1a2b3c4d-x"
    [chunk] = TaskTranslator().event(made("a", "x", id="k" * 500))
    assert len(chunk.artifact_id) == 64


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
def test_odd_things_are_taken_and_a_task_that_repeats_them_adds_nothing(updates):
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
def test_however_a_stream_breaks_off_the_text_is_whole_and_said_once(texts, heard_of, fetched):
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


def test_a_later_piece_need_not_repeat_the_name():
    transformation = TaskTranslator()
    assert transformation.event(made("Hel", "output_delta", id="o")) == [Token("Hel")]
    assert transformation.event(made("lo", "", id="o", append=True)) == [Token("lo")]


def test_a_piece_under_another_name_begins_what_the_record_does_not_have():
    transformation = TaskTranslator()
    transformation.event(made("Hello", "output_delta", id="o"))
    [chunk] = transformation.event(made("x", "report.md", id="o", append=True))
    assert (chunk.name, chunk.append) == ("report.md", False)
