"""The rules by which a run is judged. Each gives what is wrong, one line each; its name stands in the report.

A rule reads only what clients saw and what the record has (`history`). That somebody waited is no offense; that
something was lost, told twice, told to the wrong person or told wrongly is.
"""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from faults.history import INTERRUPTED, TERMINAL, Event, Record, Seen

Rule = Callable[[Seen, Record], list[str]]
SHOWN = 5  # offenses of a rule in the report
NOT_FOUND = frozenset({403, 404})


def each_acknowledged_message_is_in_one_task(seen: Seen, record: Record) -> list[str]:
    """Neither lost nor accepted twice, and in the task that the answer named."""
    places: dict[str, list[str]] = defaultdict(list)
    for message in record.messages:
        if message.role == "user":
            places[message.message_id].append(message.task)
    wrong = []
    for one in seen.acknowledged:
        found = places.get(one.message_id, [])
        if not found:
            wrong.append(f"message {one.message_id} of {one.tenant} is lost")
        elif len(found) > 1:
            wrong.append(f"message {one.message_id} of {one.tenant} is in {len(found)} places: {found}")
        elif one.task and found != [one.task]:
            wrong.append(f"message {one.message_id} was answered with task {one.task} and is in {found[0]}")
    return wrong


def each_task_ends_once(seen: Seen, record: Record) -> list[str]:
    """At most one terminal state, nothing of the task's states after it, and the row has the newest state."""
    wrong = []
    for key, events in record.by_task().items():
        states = [event.state for event in events if event.state]
        ends = [at for at, state in enumerate(states) if state in TERMINAL]
        if len(ends) > 1:
            wrong.append(f"task {key} ended {len(ends)} times: {states}")
        elif ends and ends[0] != len(states) - 1:
            wrong.append(f"task {key} left a terminal state: {states}")
        task = record.tasks.get(key)
        if task is not None and states and task.state != states[-1]:
            wrong.append(f"task {key} is {task.state}, and its log ends with {states[-1]}")
    return wrong


def indexes_have_no_gaps(seen: Seen, record: Record) -> list[str]:
    """Each log counts from 1, or from where the fork began, to the index that its row names."""
    wrong = []
    logs = record.logs()
    for key, context in record.contexts.items():
        indexes = [event.index for event in logs.get(key, [])]
        expected = list(range(context.forked_at + 1, context.last_event + 1))
        if indexes != expected:
            missing = sorted(set(expected) - set(indexes))
            wrong.append(f"context {key} has {len(indexes)} of {len(expected)} events; missing {missing[:10]}")
    return wrong


def followers_saw_the_log(seen: Seen, record: Record) -> list[str]:
    """Each follower has each session's whole log, in order, however often its connection broke."""
    logs = {key: [(event.index, event.type) for event in log] for key, log in record.logs().items()}
    needed = _sessions_of_messages(seen, record)
    wrong = []
    for follower in seen.followed:
        if follower.resets:
            wrong.append(f"{follower.door} of {follower.tenant} was told to start again: {follower.resets[0]}")
            continue
        for session in sorted(needed[follower.tenant] | follower.logs.keys()):
            told, log = list(dict.fromkeys(follower.logs.get(session, []))), logs.get(session, [])
            if told != log:
                at = next((n for n, pair in enumerate(zip(told, log, strict=False)) if pair[0] != pair[1]), len(told))
                was = told[at] if at < len(told) else "nothing"
                wrong.append(
                    f"{follower.door} of {follower.tenant}, session {session}: place {at + 1} of {len(log)} is {was}"
                )
    return wrong


def _sessions_of_messages(seen: Seen, record: Record) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for one in seen.acknowledged:
        if (task := record.tasks.get(one.task)) is not None:
            found[one.tenant].add(task.context)
    return found


def streams_agree_with_the_log(seen: Seen, record: Record) -> list[str]:
    """A task's stream has states of the log in its order, ends with the end, and has each delivered text whole."""
    wrong = []
    events = record.by_task()
    for stream in seen.streamed:
        of_task = events.get(stream.task, [])
        log = ["submitted", *(event.state for event in of_task if event.state)]
        if not _is_subsequence(_without_repeats(stream.states), log):
            wrong.append(f"stream of task {stream.task} told {stream.states}, and the log has {log}")
        if not stream.is_whole:
            continue
        for artifact, text in _delivered_texts(of_task).items():
            if stream.texts.get(artifact, "") != text:
                heard = stream.texts.get(artifact, "")
                wrong.append(
                    f"stream of task {stream.task} has {len(heard)} of {len(text)} characters of artifact {artifact}"
                    f" after {stream.connections} connections"
                )
    return wrong


def _is_subsequence(part: Iterable[str], whole: Iterable[str]) -> bool:
    rest = iter(whole)
    return all(one in rest for one in part)


def _without_repeats(states: list[str]) -> list[str]:
    """The snapshot that begins a connection repeats the newest state."""
    return [state for at, state in enumerate(states) if at == 0 or state != states[at - 1]]


def _delivered_texts(events: list[Event]) -> dict[str, str]:
    """The whole text of each artifact that a completed task streamed in chunks, by artifact."""
    if not any(event.state == "completed" for event in events):
        return {}
    texts: dict[str, str] = {}
    whole: set[str] = set()
    for event in events:
        if event.type == "artifact_update":
            part = "".join(str(one.get("text", "")) for one in event.payload["artifact"]["parts"])
            texts[event.artifact] = (texts.get(event.artifact, "") if event.payload["append"] else "") + part
            if event.payload["lastChunk"]:
                whole.add(event.artifact)
    return {artifact: text for artifact, text in texts.items() if artifact in whole}


def answers_stay_true(seen: Seen, record: Record) -> list[str]:
    """What a caller was told of an ended task is what everybody reads of it later."""
    later = {one.task: one for one in seen.later}
    wrong = []
    for one in seen.answered:
        now = later.get(one.task)
        if now is not None and (one.state, one.texts) != (now.state, now.texts):
            wrong.append(f"task {one.task} was answered as {one.state} {one.texts}; now {now.state} {now.texts}"[:400])
        task = record.tasks.get(one.task)
        if task is None or task.state != one.state:
            wrong.append(f"task {one.task} was answered as {one.state}; the row is {task.state if task else 'gone'}")
    return wrong


def work_is_done_once_and_whole(seen: Seen, record: Record) -> list[str]:
    """A completed task delivers what was asked, once; work that may be repeated completes."""
    later = {one.task: one for one in seen.later}
    wrong = []
    for one in seen.acknowledged:
        now = later.get(one.task)
        if now is None:
            continue
        if one.must_complete and now.state != "completed":
            wrong.append(f"task {one.task} may be repeated and is {now.state}")
        if one.text and now.state == "completed" and now.texts != (one.text,):
            wrong.append(f"task {one.task} delivered {now.texts} instead of {one.text!r}"[:400])
    return wrong


def webhooks_heard_all_in_order(seen: Seen, record: Record) -> list[str]:
    """Each event of a task at least once, and none for the first time before an earlier one."""
    events = record.by_task()
    heard: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for call in seen.called:
        if call.taken and call.key not in heard[call.hook]:
            heard[call.hook].append(call.key)
    wrong = []
    for hook, task in seen.hooks.items():
        expected = [key for event in events.get(task, []) if (key := _delivery_key(event))]
        if heard[hook] != expected:
            missing = [key for key in expected if key not in heard[hook]]
            what = f"missed {missing}" if missing else f"heard {heard[hook]} instead of {expected}"
            wrong.append(f"webhook of task {task} {what}"[:400])
    return wrong


def _delivery_key(event: Event) -> tuple[str, str] | None:
    if state := event.state:
        wire = "TASK_STATE_" + state.upper().replace("-", "_")
        at = event.at.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return "status", f"{wire} {at}"
    if event.type == "artifact_update" and event.payload["lastChunk"]:
        return "artifact", event.artifact
    return None


def redirects_are_not_followed(seen: Seen, record: Record) -> list[str]:
    return [f"a webhook's answer led Parley to {address}" for address in seen.strayed]


def replay_gives_the_same_rows(seen: Seen, record: Record) -> list[str]:
    return record.replay


def nothing_waits_for_nothing(seen: Seen, record: Record) -> list[str]:
    """Every task has ended or asks, no run waits, and no webhook is still to be told."""
    open_tasks = [task for task in record.tasks.values() if task.state not in TERMINAL | INTERRUPTED]
    wrong = [f"task {task.id} of {task.agent} is {task.state}" for task in open_tasks]
    wrong += [f"a run of task {run.task} is {run.state}" for run in record.runs if run.state in ("queued", "running")]
    wrong += [f"{count} deliveries for task {key} wait" for key, count in Counter(record.waiting_deliveries).items()]
    return wrong + [f"no answer: {one}" for one in seen.gave_up]


def nobody_sees_what_is_anothers(seen: Seen, record: Record) -> list[str]:
    """Another's task is not found, followers hear of their own, and rows have the owner who asked for them."""
    wrong = [
        f"{one.tenant} got {one.status} for {one.address}"
        for one in seen.probed
        if one.told or one.status not in NOT_FOUND
    ]
    for follower in seen.followed:
        others = [mark for tenant, mark in seen.marks.items() if tenant != follower.tenant]
        wrong += [f"{follower.door} of {follower.tenant} heard {text[:80]}" for text in follower.text
                  if any(mark in text for mark in others)]  # fmt: skip
        owner = seen.owners.get(follower.tenant)
        wrong += [
            f"{follower.door} of {follower.tenant} heard of session {session}"
            for session in follower.logs
            if (context := record.contexts.get(session)) is not None and context.owner != owner
        ]
    for one in seen.acknowledged:
        if (task := record.tasks.get(one.task)) is not None and task.owner != seen.owners.get(one.tenant, task.owner):
            wrong.append(f"task {one.task} of {one.tenant} belongs to another")
    return wrong


def errors_are_clear(seen: Seen, record: Record) -> list[str]:
    """Whatever is away, an answer says what to do: never a bare server error."""
    return [f"{one.status} at {one.address}: {one.body[:200]}" for one in seen.refused]


def pages_are_safe(seen: Seen, record: Record) -> list[str]:
    return [f"a page shows a message's markup as it was sent: {page}" for page in seen.unsafe]


RULES: tuple[Rule, ...] = (
    each_acknowledged_message_is_in_one_task,
    each_task_ends_once,
    indexes_have_no_gaps,
    followers_saw_the_log,
    streams_agree_with_the_log,
    answers_stay_true,
    work_is_done_once_and_whole,
    webhooks_heard_all_in_order,
    redirects_are_not_followed,
    replay_gives_the_same_rows,
    nothing_waits_for_nothing,
    nobody_sees_what_is_anothers,
    errors_are_clear,
    pages_are_safe,
)


def judge(seen: Seen, record: Record) -> dict[str, list[str]]:
    """What each rule found, by its name."""
    return {rule.__name__: rule(seen, record) for rule in RULES}
