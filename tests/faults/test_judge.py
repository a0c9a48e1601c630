"""The judge of `make faults` finds each kind of wrong history, and nothing in a right one."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import random

import pytest

from faults import injections, judge
from faults.history import (
    Acknowledged,
    Answered,
    Called,
    Context,
    Event,
    Followed,
    Message,
    Probed,
    Record,
    Refused,
    Run,
    Seen,
    Streamed,
    Task,
)

AT = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC)
WHEN = "2027-01-01T00:00:00.000Z"
HOOK = "/hook/one"


def event(index: int, type_: str, **payload: object) -> Event:
    return Event("session", index, type_, "task", "text" if type_ == "artifact_update" else "", payload, AT)


def chunk(index: int, text: str, *, append: bool, last: bool) -> Event:
    artifact = {"artifactId": "text", "parts": [{"text": text}]}
    return event(index, "artifact_update", artifact=artifact, append=append, lastChunk=last)


def right() -> tuple[Seen, Record]:
    """A task of Ada's that delivered "a b", as everybody who may saw it."""
    record = Record(
        contexts={"session": Context("session", 1, 5, 0)},
        events=[
            event(1, "user_message"),
            event(2, "agent_status", state="working"),
            chunk(3, "a ", append=False, last=False),
            chunk(4, "b", append=True, last=True),
            event(5, "agent_status", state="completed"),
        ],
        tasks={"task": Task("task", "session", 1, "counter", "completed")},
        runs=[Run("task", "done", 1)],
        messages=[Message("session", "task", "user", "said")],
    )
    log = [(one.index, one.type) for one in record.events]
    answer = Answered("ada", "task", "completed", ("a b",))
    keys = [
        ("status", f"TASK_STATE_WORKING {WHEN}"),
        ("artifact", "text"),
        ("status", f"TASK_STATE_COMPLETED {WHEN}"),
    ]
    seen = Seen(
        acknowledged=[Acknowledged("ada", "said", "task", "a b", must_complete=True)],
        answered=[answer],
        later=[answer],
        streamed=[Streamed("ada", "task", ["submitted", "working", "completed"], {"text": "a b"})],
        followed=[Followed("ada", "events", {"session": [*log, log[-1]]}, ["ada-mark"])],
        called=[Called(HOOK, keys[0], False), *(Called(HOOK, key, True) for key in [keys[0], *keys])],
        hooks={HOOK: "task"},
        probed=[Probed("bob", "/tasks/task", 404, told=False)],
        marks={"ada": "ada-mark", "bob": "bob-mark"},
        owners={"ada": 1, "bob": 2},
    )
    return seen, record


def test_right_history_breaks_no_rule() -> None:
    assert not any(judge.judge(*right()).values())


WRONG: dict[judge.Rule, tuple[str, ...]] = {
    judge.each_acknowledged_message_is_in_one_task: ("lost", "accepted twice", "in another task"),
    judge.each_task_ends_once: ("ended twice", "came back to life", "row behind its log"),
    judge.indexes_have_no_gaps: ("gap", "newest event gone"),
    judge.followers_saw_the_log: (
        "follower missed one",
        "follower heard out of order",
        "follower missed the end",
        "follower heard of no session",
    ),
    judge.streams_agree_with_the_log: ("stream left out a chunk", "stream told a state that never was"),
    judge.answers_stay_true: ("answer changed later", "answer of a state that is not"),
    judge.work_is_done_once_and_whole: ("work done twice", "repeatable work failed"),
    judge.webhooks_heard_all_in_order: ("webhook missed one", "webhook heard out of order"),
    judge.redirects_are_not_followed: ("webhook was led away",),
    judge.replay_gives_the_same_rows: ("replay differs",),
    judge.nothing_waits_for_nothing: ("task never ends", "run waits", "webhook waits", "client got no answer"),
    judge.nobody_sees_what_is_anothers: (
        "anothers task found",
        "follower heard anothers words",
        "follower heard of anothers session",
        "task of anothers",
    ),
    judge.errors_are_clear: ("bare error",),
    judge.pages_are_safe: ("markup on a page",),
}


def wrong(how: str) -> tuple[Seen, Record]:
    seen, record = right()
    match how:
        case "lost":
            record.messages.clear()
        case "accepted twice":
            record.messages.append(Message("other session", "other task", "user", "said"))
        case "in another task":
            record.messages[0] = Message("session", "other task", "user", "said")
        case "ended twice":
            record.events.append(event(6, "agent_status", state="failed"))
        case "came back to life":
            record.events.append(event(6, "agent_status", state="working"))
        case "row behind its log":
            record.tasks["task"] = dataclasses.replace(record.tasks["task"], state="working")
        case "gap":
            del record.events[2]
        case "newest event gone":
            record.events.pop()
        case "follower missed one":
            del seen.followed[0].logs["session"][2]
        case "follower heard out of order":
            seen.followed[0].logs["session"].reverse()
        case "follower missed the end":
            del seen.followed[0].logs["session"][4:]
        case "follower heard of no session":
            seen.followed[0].logs.clear()
        case "stream left out a chunk":
            seen.streamed[0].texts["text"] = "b"
        case "stream told a state that never was":
            seen.streamed[0].states.append("canceled")
        case "answer changed later":
            seen.later[0] = Answered("ada", "task", "completed", ("another",))
        case "answer of a state that is not":
            seen.answered[0] = seen.later[0] = Answered("ada", "task", "failed", ())
        case "work done twice":
            seen.answered[0] = seen.later[0] = Answered("ada", "task", "completed", ("a b", "a b"))
        case "repeatable work failed":
            seen.later[0] = Answered("ada", "task", "failed", ())
        case "webhook missed one":
            del seen.called[-1]
        case "webhook heard out of order":
            seen.called.reverse()
        case "webhook was led away":
            seen.strayed.append("/trap")
        case "replay differs":
            record.replay.append("session: Task is missing")
        case "task never ends":
            record.tasks["other"] = Task("other", "session", 1, "counter", "working")
        case "run waits":
            record.runs.append(Run("task", "queued", 0))
        case "webhook waits":
            record.waiting_deliveries.append("task")
        case "client got no answer":
            seen.gave_up.append("GET /")
        case "anothers task found":
            seen.probed.append(Probed("bob", "/tasks/task", 200, told=True))
        case "follower heard anothers words":
            seen.followed[0].text.append("bob-mark")
        case "follower heard of anothers session":
            record.contexts["session"] = dataclasses.replace(record.contexts["session"], owner=2)
        case "task of anothers":
            record.tasks["task"] = dataclasses.replace(record.tasks["task"], owner=2)
        case "bare error":
            seen.refused.append(Refused("/", 500, "Server Error"))
        case "markup on a page":
            seen.unsafe.append("/sessions/session")
        case _:
            raise ValueError(how)
    return seen, record


@pytest.mark.parametrize(("rule", "how"), [(rule, how) for rule, hows in WRONG.items() for how in hows])
def test_rule_finds_what_breaks_it(rule: judge.Rule, how: str) -> None:
    assert rule(*wrong(how))


def test_each_rule_has_a_wrong_history() -> None:
    assert set(judge.RULES) == WRONG.keys()


def test_fork_counts_from_where_it_began() -> None:
    seen, record = right()
    record.contexts["fork"] = Context("fork", 1, 4, 2)
    record.events += [dataclasses.replace(event(index, "fork"), context="fork", task="") for index in (3, 4)]
    assert judge.indexes_have_no_gaps(seen, record) == []


def test_seed_gives_the_same_faults() -> None:
    names = [*injections.FAULTS]
    one, other = (injections.Schedule(names, random.Random(7)) for _ in range(2))
    first = [one.next() for _ in names]
    assert first == [other.next() for _ in names]
    assert sorted(first) == sorted(names)
    assert all(inspect.getdoc(fault) for fault in injections.FAULTS.values())
