"""The steps of a run as they are, and the results of those that are done."""

from __future__ import annotations

import base64
import csv
import datetime
import io
import json
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import batched
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from apps.engine.output import clean
from apps.plans.definitions import Check, listed
from apps.plans.graphs import CompiledPlan, plan_at
from apps.plans.models import PlanRun, Step
from apps.plans.sql import ENDED_STEPS, STEPS_OF_KEY, WAITING_STEPS
from apps.record.content import blobs, json_schema
from apps.record.content.parts import declared_media_type, size_of
from apps.record.events import JSON
from apps.record.models import Artifact
from apps.record.sql import ARTIFACTS_OF_TASKS
from db import sql

State, Phase = Step.State, Step.Phase
LIVE = (State.STARTING, State.RUNNING)
MOST_REFERENCES = 500  # of an element of a fan-out
TICK_SECONDS = 2.0  # of the processor's time that one tick takes under the lock: templates may be slow
SEND_TIMEOUT = datetime.timedelta(seconds=10)  # after which others send a step that its tick did not send


class RunState:
    """The steps of a run, under the run's lock.

    Attributes:
        failed: the step whose failure ends the plan, once there is one.
        to_cancel: tasks to cancel after the commit; to_send: steps to send after it.
    """

    def __init__(self, run: PlanRun, now: datetime.datetime) -> None:
        self.run, self.now = run, now
        self.plan: CompiledPlan = plan_at(run.version_id)
        self.outputs = Outputs(run)
        self.failed: Step | None = None
        self.to_cancel: list[uuid.UUID] = []
        self.to_send: list[Step] = []
        self._until = time.thread_time() + TICK_SECONDS
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._busy: Counter[str] = Counter()
        for key, state, phase, agent, number in sql.execute(_counting_sql(), [_run_key(run)]).fetchall():
            self._count(key, state, phase, agent, number)

    def _count(self, key: str, state: str, phase: str, agent: str, number: int) -> None:
        self._counts[key][state] += number
        if state in LIVE and phase == Phase.WORK:
            self._busy[agent] += number

    @property
    def is_out_of_time(self) -> bool:
        """Has this tick taken its time? The next one does the rest, and other runs come in between."""
        return time.thread_time() > self._until

    def count(self, *states: str) -> int:
        """How many steps are in these states."""
        return sum(one[state] for one in self._counts.values() for state in states)

    @property
    def size(self) -> int:
        return sum(one.total() for one in self._counts.values())

    def steps(self, **conditions: Any) -> QuerySet[Step]:
        return Step.objects.filter(run=self.run, **conditions).order_by("item", "round")

    def ready(self, key: str, most: int) -> list[Step]:
        """At most this many of the steps of a key that wait."""
        return WAITING_STEPS.all(self.run.pk, key, most) if most else []

    def ended(self) -> list[Step]:
        """The steps whose tasks have ended, with these."""
        return ENDED_STEPS.all(self.run.pk)

    def waiting(self) -> Iterator[str]:
        """The keys of steps that wait for nothing but their start, in the order of the definition."""
        for key in self.plan.definition.steps:
            if self._counts[key][State.WAITING] and all(map(self.is_settled, self.plan.needs[key])):
                yield key

    def is_settled(self, key: str) -> bool:
        """Are all steps of a key done, or skipped?"""
        counts = self._counts[key]
        return 0 < counts.total() == counts[State.DONE] + counts[State.SKIPPED]

    @property
    def is_done(self) -> bool:
        return all(map(self.is_settled, self.plan.definition.steps))

    def free_slots(self, agent: str) -> int:
        """How many more steps may work at once; of an agent with a limit of its own, also how many of its steps."""
        definition = self.plan.definition
        free = definition.limit - self._busy.total()
        if agent in definition.agent_limits:
            free = min(free, definition.agent_limits[agent] - self._busy[agent])
        return max(0, free)

    def transition(self, step: Step, state: Step.State, **values: Any) -> bool:
        """Compare and swap: move a step from the state in which it was read; False where it has another by now."""
        was = step.state, step.phase, step.agent
        values["state"] = state
        if state == State.STARTING:
            values["due_at"] = self.now + SEND_TIMEOUT
        if not sql.update(Step, {"id": step.pk, "state": step.state, "phase": step.phase}, values):
            return False
        for name, value in values.items():
            setattr(step, name, value)
        if state == State.STARTING:
            self.to_send.append(step)
        self._count(step.key, *was, -1)
        self._count(step.key, step.state, step.phase, step.agent, 1)
        return True

    def adopt_unsent(self) -> None:
        """Send the steps that an earlier tick began and did not send."""
        if self.count(State.STARTING) == len(self.to_send):
            return
        left = list(self.steps(state=State.STARTING, due_at__lt=self.now))
        Step.objects.filter(pk__in=[step.pk for step in left]).update(due_at=self.now + SEND_TIMEOUT)
        self.to_send += left

    def add(self, steps: list[Step]) -> None:
        Step.objects.bulk_create(steps)
        for step in steps:
            self._count(step.key, step.state, step.phase, step.agent, 1)

    def remove(self, step: Step) -> None:
        Step.objects.filter(pk=step.pk).delete()
        self._count(step.key, step.state, step.phase, step.agent, -1)

    def end(self, step: Step, state: Step.State, why: str = "") -> None:
        """A step is done, skipped, or has failed for good, which ends the plan."""
        self.transition(step, state, why=why[:500], ended_at=self.now, due_at=None, asked_at=None)
        if state == State.FAILED:
            self.failed = self.failed or step

    def finish_done(self, steps: Sequence[Step]) -> None:
        """Mark steps whose tasks have ended as done."""
        done = {"state": State.DONE, "why": "", "ended_at": self.now, "due_at": None, "asked_at": None}
        if len(steps) == 1:
            sql.update(Step, {"id": steps[0].pk, "state": State.ENDED}, done)
        elif steps:
            Step.objects.filter(pk__in=[step.pk for step in steps], state=State.ENDED).update(**done)
        for step in steps:
            self._count(step.key, step.state, step.phase, step.agent, -1)
            step.state = State.DONE
            self._count(step.key, step.state, step.phase, step.agent, 1)

    def template_names(self, step: Step, **more: Any) -> JSON:
        """The names that the step's templates and expressions may use."""
        if step.item >= 0:
            more |= {"item": self.outputs.deserialize(step.value), "index": step.item}
        if self.plan.step(step.key).repeat and "last" not in more:
            more["last"] = self.outputs.of_round(step, step.round - 1) if step.round > 1 else None
        return self.outputs.template_names(**more)

    def references(self, step: Step) -> list[str]:
        """The tasks of the steps that a step needs.

        An element of a fan-out refers to the tasks that it came from, where that is known, rather than to all that its
        list came from; and to at most MOST_REFERENCES: each of thousands cannot refer to thousands.
        """
        needs, most, own = self.plan.needs[step.key], None, list[str]()
        if step.item >= 0:
            own, most = [place["task"] for place in stored_references(step.value) if place.get("task")], MOST_REFERENCES
        if own:
            needs = needs - self.plan.fan_out_sources[step.key]
        return list(dict.fromkeys([*own, *_done_tasks(self.run.pk, tuple(sorted(needs)))]))[:most]

    def is_unexpanded(self, key: str) -> bool:
        """Is there one step of a key? Of a fan-out: its list may not be known yet."""
        return self._counts[key].total() == 1

    def is_active(self, key: str) -> bool:
        """Does a step of a key work, or ask something?"""
        return any(self._counts[key][state] for state in Step.ACTIVE)


def deadline(now: datetime.datetime, limit: float | None) -> datetime.datetime | None:
    """When a step with this time limit (seconds) is cut off."""
    return now + datetime.timedelta(seconds=limit) if limit else None


def _run_key(run: PlanRun) -> Any:
    return PlanRun._meta.pk.get_db_prep_value(run.pk, connection)


@cache
def _counting_sql() -> str:
    """SQL for how many steps of a run are alike; its order is that of the index `steps_of_a_run`."""
    columns = "key, state, phase, agent"
    return f"SELECT {columns}, COUNT(*) FROM {Step._meta.db_table} WHERE run_id = %s GROUP BY {columns}"  # noqa: S608


@lru_cache(maxsize=100)
def _done_tasks(run: uuid.UUID, keys: Sequence[str]) -> list[str]:
    """The tasks of steps that are done: those do not change any more."""
    tasks = Step.objects.filter(run=run, key__in=keys, task__isnull=False).order_by("key", "item", "round")
    return [str(task) for task in tasks.values_list("task", flat=True)]


@dataclass(frozen=True, slots=True, eq=False)
class ArtifactResult:
    """An artifact of a step.

    Attributes:
        text: its text parts, and files whose media type, or else name, says that they are text.
        data: its first JSON.
        parts: as in A2A.
    """

    name: str = ""
    media_type: str = ""
    text: str = ""
    data: Any = None
    parts: Sequence[JSON] = ()

    @classmethod
    def of(cls, name: str, parts: Sequence[JSON]) -> ArtifactResult:
        """From A2A parts that hold their content."""
        first_type = next((given for part in parts if (given := declared_media_type(part))), "")
        texts = [text for part in parts if (text := _part_text(part)) is not None]
        data = next((part["data"] for part in parts if "data" in part), None)
        return cls(name, first_type, "\n".join(texts), data, tuple(parts))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """How a step ended: `text` is its agent's last message, `data` the first JSON of its artifacts."""

    key: str = ""
    state: str = ""
    text: str = ""
    data: Any = None
    artifacts: Sequence[ArtifactResult] = ()

    @classmethod
    def of(cls, key: str, state: str, text: str, artifacts: Sequence[ArtifactResult]) -> StepResult:
        data = next((artifact.data for artifact in artifacts if artifact.data is not None), None)
        return cls(key, state, text, data, tuple(artifacts))

    def __str__(self) -> str:
        return self.text


MOST_BYTES = 5_000_000  # of a part that a template may see
MOST_BYTES_OF_A_KEY = 50_000_000  # of all that the steps of one key delivered
TASKS_AT_ONCE = 200  # steps whose artifacts are read at once
JSON_TYPE = "application/json"
REFERENCE_KEY = "$"  # in a stored value: its value says where a result is in the record

Result = StepResult | list[StepResult]


class Outputs(Mapping[str, Result]):
    """By key, the results of a run's steps: of a fan-out a list, of a repetition the last.

    It remembers where in the record each result is, so that values that hold results can be stored.
    """

    def __init__(self, run: PlanRun) -> None:
        self._run = run
        self._plan = plan_at(run.version_id)
        self._by_key: dict[str, Result] = {}
        self._references: dict[Any, JSON] = {}  # where each result is in the record
        self._by_step: dict[str, StepResult] = {}

    def __getitem__(self, key: str) -> Result:
        if key not in self._plan.definition.steps:
            raise KeyError(key)
        if key not in self._by_key:
            self._by_key[key] = self._read(key)
        return self._by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._plan.definition.steps)

    def __len__(self) -> int:
        return len(self._plan.definition.steps)

    @cached_property
    def inputs(self) -> JSON:
        """The inputs of the run, its files as artifacts."""
        files = [artifact_result([part], part.get("filename", "")) for part in self._run.inputs.get("files", [])]
        self._references |= {file: {"file": number} for number, file in enumerate(files)}
        return {"text": "", **self._run.inputs, "files": files}

    def template_names(self, **more: Any) -> JSON:
        """The names that templates may use."""
        return {"inputs": self.inputs, "steps": self, **more}

    def parts(self, given: Any) -> list[JSON]:
        """The parts of an artifact, a result, or a list of such. Raises ValueError for anything else."""
        if isinstance(given, StepResult):
            return self.parts(given.artifacts)
        if isinstance(given, list | tuple):
            return [part for one in given for part in self.parts(one)]
        if not isinstance(given, ArtifactResult):
            raise ValueError("`attach` takes artifacts, such as `steps.review.artifacts`.")
        return [dict(part) for part in given.parts]

    def serialize(self, value: Any) -> Any:
        """The value of an expression as JSON, with references to results. Raises ValueError for what is no JSON."""
        if isinstance(value, ArtifactResult | StepResult):
            return {REFERENCE_KEY: self._references[value]}
        if isinstance(value, list | tuple):
            return [self.serialize(one) for one in value]
        if not isinstance(value, dict):
            return clean(value)
        made = {clean(name): self.serialize(one) for name, one in value.items()}
        # The data of an agent is never read as a reference.
        return {REFERENCE_KEY: {"value": made}} if REFERENCE_KEY in made else made

    def deserialize(self, stored: Any) -> Any:
        """The value of `serialize`. Raises ValueError where a result was deleted since."""
        if isinstance(stored, list):
            return [self.deserialize(one) for one in stored]
        if not isinstance(stored, dict):
            return stored
        if REFERENCE_KEY not in stored:
            return {name: self.deserialize(one) for name, one in stored.items()}
        match stored[REFERENCE_KEY]:
            case {"value": value}:
                return {name: self.deserialize(one) for name, one in value.items()}
            case {"file": number}:
                return self.inputs["files"][number]
            case {"step": step}:
                self._read_steps({step})
                return self._by_step[step]
            case {"task": task, "artifact": artifact}:
                if found := Artifact.objects.delivered().filter(task=task, artifact_id=artifact).first():
                    return self._artifact(found)
        raise ValueError("What it is to be done for has been deleted.")

    def prefetch(self, steps: Iterable[Step]) -> None:
        """Read at once the results that the elements of these steps refer to."""
        found = (place for step in steps for place in stored_references(step.value))
        self._read_steps({place["step"] for place in found if "step" in place})

    def _read_steps(self, keys: Set[str]) -> None:
        if unread := keys - self._by_step.keys():
            self.of_steps(list(Step.objects.select_related("task").filter(pk__in=unread)))

    def of_round(self, step: Step, round_: int) -> StepResult:
        """What another round of the step delivered."""
        steps = Step.objects.select_related("task").filter(run=step.run_id, key=step.key)
        return self.of_steps([steps.get(item=step.item, round=round_)])[0]

    def of_steps(self, steps: Sequence[Step]) -> list[StepResult]:
        """What these steps delivered, by one query for each TASKS_AT_ONCE of them. Their tasks should be loaded.

        Raises ValueError for more than may be held at once.
        """
        keys = [step.task_id for step in steps if step.task_id]
        made: dict[uuid.UUID, list[ArtifactResult]] = {}
        size = 0
        for artifact in _artifacts_of(keys):
            size += sum(size_of(part) or 0 for part in artifact.parts if _is_readable(part))
            if size > MOST_BYTES_OF_A_KEY:
                most = f"{MOST_BYTES_OF_A_KEY:,} bytes together"
                raise ValueError(f"What `{steps[0].key}` delivered is larger than {most}.")
            made.setdefault(artifact.task_id, []).append(self._artifact(artifact))
        found = []
        for step in steps:
            artifacts = made.get(step.task_id, []) if step.task_id else []
            text = message_text(step.task.status_message) if step.task else ""
            found.append(result := StepResult.of(step.key, step.state, text, artifacts))
            self._references[result] = {"step": str(step.pk), "task": str(step.task_id or "")}
            self._by_step[str(step.pk)] = result
        return found

    def _read(self, key: str) -> Result:
        settled = STEPS_OF_KEY.all(self._run.pk, key)
        last = {step.item: step for step in settled if step.state in Step.SETTLED}
        is_list = self._plan.step(key).for_each is not None
        results = self.of_steps([step for step in last.values() if not is_list or step.item >= 0])
        return results if is_list else results[0]

    def _artifact(self, artifact: Artifact) -> ArtifactResult:
        result = artifact_result(artifact.parts, artifact.name)
        self._references[result] = {"task": str(artifact.task_id), "artifact": artifact.artifact_id}
        return result


def _artifacts_of(tasks: Sequence[uuid.UUID]) -> Iterator[Artifact]:
    """What some tasks delivered."""
    for some in batched(tasks, TASKS_AT_ONCE, strict=False):
        yield from (
            artifact for artifact in ARTIFACTS_OF_TASKS.all(list(some)) if artifact.state == Artifact.State.DELIVERED
        )


def stored_references(stored: Any) -> Iterator[JSON]:
    """The references to results in a stored value."""
    if isinstance(stored, list):
        for one in stored:
            yield from stored_references(one)
    elif isinstance(stored, dict):
        match stored.get(REFERENCE_KEY):
            case None:
                yield from stored_references(list(stored.values()))
            case {"value": made}:
                yield from stored_references(list(made.values()))
            case where:
                yield where


def artifact_result(parts: Sequence[JSON], name: str) -> ArtifactResult:
    """An artifact as templates see it, from parts whose content may be in files."""
    read = ArtifactResult.of(name, [_read_part(part) for part in parts])
    data = read.data
    if data is None and read.media_type == JSON_TYPE:
        part = next(part for part in parts if declared_media_type(part) == JSON_TYPE)
        with suppress(ValueError, RecursionError):
            data = json.loads(read.text or blobs.head_of(part, MOST_BYTES))
    return replace(read, data=data, parts=tuple(parts))


def _read_part(part: JSON) -> JSON:
    """The part with its content, where templates can use that."""
    if _is_readable(part):
        return blobs.inline(part)
    about = {name: value for name, value in part.items() if name != "stored"}
    return {"url": "", **about, "mediaType": declared_media_type(part)}


def _is_readable(part: JSON) -> bool:
    if "stored" not in part:
        return True
    is_text = declared_media_type(part).startswith("text/") or part["stored"]["kind"] != "raw"
    return is_text and bool(part["stored"]["size"] <= MOST_BYTES)


def message_text(message: JSON | None, between: str = "\n") -> str:
    """The text parts of a message, with this between them."""
    return between.join(part["text"] for part in (message or {}).get("parts", []) if part.get("text"))


def _part_text(part: JSON) -> str | None:
    if isinstance(part.get("text"), str):
        return str(part["text"])
    if isinstance(part.get("raw"), str) and declared_media_type(part).startswith("text/"):
        try:
            return base64.b64decode(part["raw"]).decode("utf-8-sig", "replace")
        except ValueError:
            return None
    return None


def check_problem(check: Check, artifacts: Sequence[ArtifactResult]) -> str:
    """What is wrong with these artifacts, as a sentence; empty if nothing is."""
    if not artifacts:
        return "There is no artifact."
    artifact = next((one for one in artifacts if check.artifact in ("", one.name)), None)
    if artifact is None:
        return f"There is no artifact `{check.artifact}`; there are {listed(one.name for one in artifacts)}."
    what = f"The artifact `{artifact.name}`" if artifact.name else "The artifact"
    return (
        _problem_with_type(check.media_type, artifact, what)
        or _problem_with_data(check.json_schema, artifact, what)
        or _problem_with_columns(check.columns, artifact, what)
    )


def _problem_with_type(wanted: str, artifact: ArtifactResult, what: str) -> str:
    if not wanted:
        return ""
    there = [*dict.fromkeys(one for one in (artifact.media_type, *map(declared_media_type, artifact.parts)) if one)]
    least = wanted.lower()
    family = least.removesuffix("*") if least.endswith("/*") else None
    if any(one == least or least == "*/*" or (family and one.startswith(family)) for one in there):
        return ""
    return f"{what} is {listed(there) if there else 'of no stated media type'}; it has to be `{wanted}`."


def _problem_with_data(schema: JSON | None, artifact: ArtifactResult, what: str) -> str:
    if schema is None:
        return ""
    if artifact.data is None:
        return f"{what} holds no JSON."
    for steps, sentence in json_schema.violations(schema, artifact.data):
        return f"{what}, at `{_json_path(steps)}`: {sentence}"
    return ""


def _problem_with_columns(wanted: Sequence[str], artifact: ArtifactResult, what: str) -> str:
    if not wanted:
        return ""
    header = csv_columns(artifact.text)
    missing = [name for name in wanted if name not in header]
    if not missing:
        return ""
    if not header:
        return f"{what} is no CSV file; it has to have the columns {listed(wanted)}."
    noun = "column" if len(missing) == 1 else "columns"
    return f"{what} has no {noun} {listed(missing)}; it has {listed(header)}."


def csv_columns(text: str) -> list[str]:
    """The names in the first line of a CSV file, between commas, semicolons or tabs; empty for what is no CSV."""
    line = next((line for line in text.removeprefix("\ufeff").splitlines() if line.strip()), "")
    delimiter = max(",;\t", key=line.count)
    try:
        return [name.strip() for name in next(csv.reader(io.StringIO(line), delimiter=delimiter), [])]
    except csv.Error:
        return []


def _json_path(steps: Iterable[Any]) -> str:
    """RFC 9535, of plain names."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
