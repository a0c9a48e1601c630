"""The judge of `make faults` finds each kind of wrong history, and nothing in a right one."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from unittest import mock

import pytest

from faults import judge
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
from faults.planted import DEFECTS

AT = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC)
WHEN = "2027-01-01T00:00:00.000Z"
HOOK = "/hook/one"


def event(index: int, type_: str, **payload: object) -> Event:
    return Event("session", index, type_, "task", "text" if type_ == "artifact_update" else "", payload, AT)


def chunk(index: int, text: str, *, append: bool, last: bool) -> Event:
    artifact = {"artifactId": "text", "parts": [{"text": text}]}
    return event(index, "artifact_update", artifact=artifact, append=append, lastChunk=last)


def log_of(record: Record) -> list[tuple[int, str]]:
    return [(one.index, one.type) for one in record.events]


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
    log = log_of(record)
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


def test_right_history_breaks_no_rule():
    assert not any(judge.judge(*right()).values())


def changed[T](rows: dict[str, T], key: str, **fields: object) -> None:
    rows[key] = dataclasses.replace(rows[key], **fields)  # type: ignore[type-var]


def answered(seen: Seen, state: str, *artifacts: str, later: bool = True) -> None:
    """The caller's answer became this, or was it already."""
    seen.later[0] = Answered("ada", "task", state, artifacts)
    if not later:
        seen.answered[0] = seen.later[0]


TWICE = Message("other session", "other task", "user", "said")
WRONG: list[tuple[judge.Rule, str, Callable[[Seen, Record], object]]] = [
    (judge.each_acknowledged_message_is_in_one_task, "lost", lambda s, r: r.messages.clear()),
    (
        judge.each_acknowledged_message_is_in_one_task,
        "twice",
        lambda s, r: r.messages.append(TWICE),
    ),
    (judge.each_task_ends_once, "ended twice", lambda s, r: r.events.append(event(6, "agent_status", state="failed"))),
    (judge.each_task_ends_once, "alive again", lambda s, r: r.events.append(event(6, "agent_status", state="working"))),
    (judge.each_task_ends_once, "row behind its log", lambda s, r: changed(r.tasks, "task", state="working")),
    (judge.indexes_have_no_gaps, "gap", lambda s, r: r.events.pop(2)),
    (judge.indexes_have_no_gaps, "newest event gone", lambda s, r: r.events.pop()),
    (judge.followers_saw_the_log, "missed one", lambda s, r: s.followed[0].logs["session"].pop(2)),
    (judge.followers_saw_the_log, "out of order", lambda s, r: s.followed[0].logs["session"].reverse()),
    (judge.followers_saw_the_log, "missed the end", lambda s, r: s.followed[0].logs.update(session=log_of(r)[:4])),
    (judge.followers_saw_the_log, "no session", lambda s, r: s.followed[0].logs.clear()),
    (judge.streams_agree_with_the_log, "chunk left out", lambda s, r: s.streamed[0].texts.update(text="b")),
    (judge.streams_agree_with_the_log, "false state", lambda s, r: s.streamed[0].states.append("canceled")),
    (judge.answers_stay_true, "changed later", lambda s, r: answered(s, "completed", "another")),
    (judge.answers_stay_true, "false state", lambda s, r: answered(s, "failed", later=False)),
    (judge.work_is_done_once_and_whole, "done twice", lambda s, r: answered(s, "completed", "a b", "a b", later=False)),
    (judge.work_is_done_once_and_whole, "repeatable work failed", lambda s, r: answered(s, "failed")),
    (judge.webhooks_heard_all_in_order, "missed one", lambda s, r: s.called.pop()),
    (judge.webhooks_heard_all_in_order, "out of order", lambda s, r: s.called.reverse()),
    (judge.redirects_are_not_followed, "led away", lambda s, r: s.strayed.append("/trap")),
    (judge.replay_gives_the_same_rows, "differs", lambda s, r: r.replay.append("session: Task is missing")),
    (judge.nothing_waits_for_nothing, "task", lambda s, r: r.tasks.update(b=Task("b", "session", 1, "a", "working"))),
    (judge.nothing_waits_for_nothing, "run", lambda s, r: r.runs.append(Run("task", "queued", 0))),
    (judge.nothing_waits_for_nothing, "webhook", lambda s, r: r.waiting_deliveries.append("task")),
    (judge.nothing_waits_for_nothing, "client", lambda s, r: s.gave_up.append("GET /")),
    (judge.nobody_sees_what_is_anothers, "task", lambda s, r: s.probed.append(Probed("bob", "/", 200, told=True))),
    (judge.nobody_sees_what_is_anothers, "words", lambda s, r: s.followed[0].text.append("bob-mark")),
    (judge.nobody_sees_what_is_anothers, "session", lambda s, r: changed(r.contexts, "session", owner=2)),
    (judge.nobody_sees_what_is_anothers, "own task", lambda s, r: changed(r.tasks, "task", owner=2)),
    (judge.errors_are_clear, "bare error", lambda s, r: s.refused.append(Refused("/", 500, "Server Error"))),
    (judge.pages_are_safe, "markup", lambda s, r: s.unsafe.append("/sessions/session")),
]


@pytest.mark.parametrize(("rule", "how", "spoil"), WRONG)
def test_rule_finds_what_breaks_it(rule, how, spoil):
    seen, record = right()
    spoil(seen, record)
    assert rule(seen, record)


def test_each_rule_has_a_wrong_history():
    assert set(judge.RULES) == {rule for rule, *_ in WRONG}


@pytest.mark.parametrize("name", DEFECTS)
def test_each_defect_can_be_planted(name):
    plant, _ = DEFECTS[name]
    try:
        plant()
    finally:
        mock.patch.stopall()
