"""The judge of `make faults` finds each kind of wrong history, and nothing in a right one."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import random
from collections.abc import Callable

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
Plant = Callable[[Seen, Record], None]


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


def test_a_right_history_breaks_no_rule() -> None:
    assert not any(judge.judge(*right()).values())


def lost(seen: Seen, record: Record) -> None:
    record.messages.clear()


def accepted_twice(seen: Seen, record: Record) -> None:
    record.messages.append(Message("other session", "other task", "user", "said"))


def in_another_task(seen: Seen, record: Record) -> None:
    record.messages[0] = Message("session", "other task", "user", "said")


def ended_twice(seen: Seen, record: Record) -> None:
    record.events.append(event(6, "agent_status", state="failed"))


def came_back_to_life(seen: Seen, record: Record) -> None:
    record.events.append(event(6, "agent_status", state="working"))


def row_behind_its_log(seen: Seen, record: Record) -> None:
    record.tasks["task"] = dataclasses.replace(record.tasks["task"], state="working")


def gap(seen: Seen, record: Record) -> None:
    del record.events[2]


def newest_event_gone(seen: Seen, record: Record) -> None:
    record.events.pop()


def follower_missed_one(seen: Seen, record: Record) -> None:
    del seen.followed[0].logs["session"][2]


def follower_heard_out_of_order(seen: Seen, record: Record) -> None:
    seen.followed[0].logs["session"].reverse()


def follower_missed_the_end(seen: Seen, record: Record) -> None:
    del seen.followed[0].logs["session"][4:]


def follower_heard_of_no_session(seen: Seen, record: Record) -> None:
    seen.followed[0].logs.clear()


def stream_left_out_a_chunk(seen: Seen, record: Record) -> None:
    seen.streamed[0].texts["text"] = "b"


def stream_told_a_state_that_never_was(seen: Seen, record: Record) -> None:
    seen.streamed[0].states.append("canceled")


def answer_changed_later(seen: Seen, record: Record) -> None:
    seen.later[0] = Answered("ada", "task", "completed", ("another",))


def answer_of_a_state_that_is_not(seen: Seen, record: Record) -> None:
    seen.answered[0] = seen.later[0] = Answered("ada", "task", "failed", ())


def work_done_twice(seen: Seen, record: Record) -> None:
    seen.answered[0] = seen.later[0] = Answered("ada", "task", "completed", ("a b", "a b"))


def repeatable_work_failed(seen: Seen, record: Record) -> None:
    seen.later[0] = Answered("ada", "task", "failed", ())


def webhook_missed_one(seen: Seen, record: Record) -> None:
    del seen.called[-1]


def webhook_heard_out_of_order(seen: Seen, record: Record) -> None:
    seen.called.reverse()


def webhook_was_led_away(seen: Seen, record: Record) -> None:
    seen.strayed.append("/trap")


def replay_differs(seen: Seen, record: Record) -> None:
    record.replay.append("session: Task is missing")


def task_never_ends(seen: Seen, record: Record) -> None:
    record.tasks["other"] = Task("other", "session", 1, "counter", "working")


def run_waits(seen: Seen, record: Record) -> None:
    record.runs.append(Run("task", "queued", 0))


def webhook_waits(seen: Seen, record: Record) -> None:
    record.waiting_deliveries.append("task")


def client_got_no_answer(seen: Seen, record: Record) -> None:
    seen.gave_up.append("GET /")


def anothers_task_found(seen: Seen, record: Record) -> None:
    seen.probed.append(Probed("bob", "/tasks/task", 200, told=True))


def follower_heard_anothers_words(seen: Seen, record: Record) -> None:
    seen.followed[0].text.append("bob-mark")


def follower_heard_of_anothers_session(seen: Seen, record: Record) -> None:
    record.contexts["session"] = dataclasses.replace(record.contexts["session"], owner=2)


def task_of_anothers(seen: Seen, record: Record) -> None:
    record.tasks["task"] = dataclasses.replace(record.tasks["task"], owner=2)


def bare_error(seen: Seen, record: Record) -> None:
    seen.refused.append(Refused("/", 500, "Server Error"))


def markup_on_a_page(seen: Seen, record: Record) -> None:
    seen.unsafe.append("/sessions/session")


WRONG: dict[judge.Rule, tuple[Plant, ...]] = {
    judge.each_acknowledged_message_is_in_one_task: (lost, accepted_twice, in_another_task),
    judge.each_task_ends_once: (ended_twice, came_back_to_life, row_behind_its_log),
    judge.indexes_have_no_gaps: (gap, newest_event_gone),
    judge.followers_saw_the_log: (
        follower_missed_one,
        follower_heard_out_of_order,
        follower_missed_the_end,
        follower_heard_of_no_session,
    ),
    judge.streams_agree_with_the_log: (stream_left_out_a_chunk, stream_told_a_state_that_never_was),
    judge.answers_stay_true: (answer_changed_later, answer_of_a_state_that_is_not),
    judge.work_is_done_once_and_whole: (work_done_twice, repeatable_work_failed),
    judge.webhooks_heard_all_in_order: (webhook_missed_one, webhook_heard_out_of_order),
    judge.redirects_are_not_followed: (webhook_was_led_away,),
    judge.replay_gives_the_same_rows: (replay_differs,),
    judge.nothing_waits_for_nothing: (task_never_ends, run_waits, webhook_waits, client_got_no_answer),
    judge.nobody_sees_what_is_anothers: (
        anothers_task_found,
        follower_heard_anothers_words,
        follower_heard_of_anothers_session,
        task_of_anothers,
    ),
    judge.errors_are_clear: (bare_error,),
    judge.pages_are_safe: (markup_on_a_page,),
}


@pytest.mark.parametrize(
    ("rule", "plant"),
    [pytest.param(rule, plant, id=plant.__name__) for rule, plants in WRONG.items() for plant in plants],
)
def test_a_rule_finds_what_breaks_it(rule: judge.Rule, plant: Plant) -> None:
    seen, record = right()
    plant(seen, record)
    assert rule(seen, record)


def test_each_rule_has_a_history_that_breaks_it() -> None:
    assert set(judge.RULES) == WRONG.keys()


def test_a_fork_counts_from_where_it_began() -> None:
    seen, record = right()
    record.contexts["fork"] = Context("fork", 1, 4, 2)
    record.events += [dataclasses.replace(event(index, "fork"), context="fork", task="") for index in (3, 4)]
    assert judge.indexes_have_no_gaps(seen, record) == []


def test_a_seed_gives_the_same_faults_each_once_in_a_round() -> None:
    names = [*injections.FAULTS]
    one, other = (injections.Schedule(names, random.Random(7)) for _ in range(2))
    first = [one.next() for _ in names]
    assert first == [other.next() for _ in names]
    assert sorted(first) == sorted(names)
    assert all(inspect.getdoc(fault) for fault in injections.FAULTS.values())
