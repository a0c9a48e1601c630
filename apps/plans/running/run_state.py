"""The steps of a run, and the results of those that are done."""

from __future__ import annotations

import base64
import csv
import datetime
import io
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import batched
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from apps.engine.turns.output import clean
from apps.plans.definitions import Check
from apps.plans.graphs import CompiledPlan, plan_at
from apps.plans.models import PlanRun, Step
from apps.plans.sql import ENDED_STEPS, STEPS_OF_KEY, WAITING_STEPS
from apps.record.content import blobs, json_schema, strict_json
from apps.record.content.parts import declared_media_type, size_of
from apps.record.events import JSON
from apps.record.models import Artifact
from apps.record.sql import ARTIFACTS_OF_TASKS
from parley.db import sql
from parley.templating import listed

State, Phase = Step.State, Step.Phase
LIVE = (State.STARTING, State.RUNNING)
MOST_REFERENCES = 500  # of one item of a fan-out
TICK_SECONDS = 2.0  # of a tick under the lock: templates may be slow
SEND_TIMEOUT = datetime.timedelta(seconds=10)  # after which another tick sends an unsent step
COUNTED = "key, state, phase, agent"  # in the order of the index `steps_of_a_run`
COUNT_STEPS = f"SELECT {COUNTED}, COUNT(*) FROM {Step._meta.db_table} WHERE run_id = %s GROUP BY {COUNTED}"  # noqa: S608


class RunState:
    """The steps of a run, under the run's lock.

    Attributes:
        failed: the step whose failure ends the plan.
        to_cancel, to_send: tasks to cancel and steps to send after the commit.
    """

    def __init__(self, run: PlanRun, now: datetime.datetime) -> None:
        self.run, self.now = run, now
        self.plan: CompiledPlan = plan_at(run.version_id)
        self.outputs = Outputs(run)
        self.failed: Step | None = None
        self.to_cancel: list[uuid.UUID] = []
        self.to_send: list[Step] = []
        self._until = time.monotonic() + TICK_SECONDS
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._busy: Counter[str] = Counter()
        run_key = PlanRun._meta.pk.get_db_prep_value(run.pk, connection)
        for key, state, phase, agent, number in sql.execute(COUNT_STEPS, [run_key]).fetchall():
            self._count(key, state, phase, agent, number)

    def _count(self, key: str, state: str, phase: str, agent: str, number: int) -> None:
        self._counts[key][state] += number
        if state in LIVE and phase == Phase.WORK:
            self._busy[agent] += number

    @property
    def is_out_of_time(self) -> bool:
        """Is the tick's time up? The next tick does the rest, so that other runs are not delayed."""
        return time.monotonic() > self._until

    def count(self, *states: str) -> int:
        """The number of steps in these states."""
        return sum(one[state] for one in self._counts.values() for state in states)

    @property
    def size(self) -> int:
        return sum(one.total() for one in self._counts.values())

    def steps(self, **conditions: Any) -> QuerySet[Step]:
        return Step.objects.filter(run=self.run, **conditions).order_by("item", "round")

    def ready(self, key: str, most: int) -> list[Step]:
        return WAITING_STEPS.all(self.run.pk, key, most) if most else []

    def ended(self) -> list[Step]:
        """The steps whose tasks have ended, with these tasks."""
        return ENDED_STEPS.all(self.run.pk)

    def waiting(self) -> Iterator[str]:
        for key in self.plan.definition.steps:
            if self._counts[key][State.WAITING] and all(map(self.is_settled, self.plan.needs[key])):
                yield key

    def is_settled(self, key: str) -> bool:
        counts = self._counts[key]
        return 0 < counts.total() == counts[State.DONE] + counts[State.SKIPPED]

    @property
    def is_done(self) -> bool:
        return all(map(self.is_settled, self.plan.definition.steps))

    def free_slots(self, agent: str) -> int:
        definition = self.plan.definition
        free = definition.limit - self._busy.total()
        if agent in definition.agent_limits:
            free = min(free, definition.agent_limits[agent] - self._busy[agent])
        return max(0, free)

    def transition(self, step: Step, state: Step.State, **values: Any) -> bool:
        """Compare-and-swap of a step's state; False if it has changed since it was read."""
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
        """Send the steps that an earlier tick started but did not send."""
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
        self.transition(step, state, why=why[:500], ended_at=self.now, due_at=None, asked_at=None)
        if state == State.FAILED:
            self.failed = self.failed or step

    def finish_done(self, steps: Sequence[Step]) -> None:
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
        if step.item >= 0:
            more |= {"item": self.outputs.deserialize(step.value), "index": step.item}
        if self.plan.step(step.key).repeat and "last" not in more:
            more["last"] = self.outputs.of_round(step, step.round - 1) if step.round > 1 else None
        return self.outputs.template_names(**more)

    def references(self, step: Step) -> list[str]:
        """The tasks of the steps that a step needs.

        An item of a fan-out refers to the tasks that it came from, if known, rather than to all tasks of the list. At
        most MOST_REFERENCES.
        """
        needs, most, own = self.plan.needs[step.key], None, list[str]()
        if step.item >= 0:
            own, most = [place["task"] for place in stored_references(step.value) if place.get("task")], MOST_REFERENCES
        if own:
            needs = needs - self.plan.fan_out_sources[step.key]
        return list(dict.fromkeys([*own, *_done_tasks(self.run.pk, tuple(sorted(needs)))]))[:most]

    def is_unexpanded(self, key: str) -> bool:
        """Has the key one row? The list of a fan-out may not be known yet."""
        return self._counts[key].total() == 1

    def is_active(self, key: str) -> bool:
        """Does a step of the key work or ask?"""
        return any(self._counts[key][state] for state in Step.ACTIVE)


def deadline(now: datetime.datetime, limit: float | None) -> datetime.datetime | None:
    """When a step with this time limit (seconds) is canceled."""
    return now + datetime.timedelta(seconds=limit) if limit else None


@lru_cache(maxsize=100)
def _done_tasks(run: uuid.UUID, keys: Sequence[str]) -> list[str]:
    tasks = Step.objects.filter(run=run, key__in=keys, task__isnull=False).order_by("key", "item", "round")
    return [str(task) for task in tasks.values_list("task", flat=True)]


@dataclass(frozen=True, slots=True, eq=False)
class ArtifactResult:
    """An artifact of a step. `text`: its text parts and text files; `data`: its first JSON; `parts`: as in A2A."""

    name: str = ""
    media_type: str = ""
    text: str = ""
    data: Any = None
    parts: Sequence[JSON] = ()

    @classmethod
    def of(cls, name: str, parts: Sequence[JSON]) -> ArtifactResult:
        """From A2A parts with their content."""
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


def result_parts(given: Any) -> list[JSON]:
    """The parts of an artifact, a result, or a list of these. Raises ValueError for anything else."""
    if isinstance(given, StepResult):
        return result_parts(given.artifacts)
    if isinstance(given, list | tuple):
        return [part for one in given for part in result_parts(one)]
    if not isinstance(given, ArtifactResult):
        raise ValueError("`attach` takes artifacts, such as `steps.review.artifacts`.")
    return [dict(part) for part in given.parts]


MOST_BYTES = 5_000_000  # of a part that a template may see
MOST_BYTES_OF_A_KEY = 50_000_000  # of all results of one key
TASKS_AT_ONCE = 200  # whose artifacts are read by one query
JSON_TYPE = "application/json"
REFERENCE_KEY = "$"  # in a stored value: holds a reference to a result

Result = StepResult | list[StepResult]


class Outputs(Mapping[str, Result]):
    """The results of a run's steps by key: a list for a fan-out, the last round of a repetition.

    Remembers where each result is in the record, so that `serialize` can store a reference.
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
        """The inputs of the run, with files as artifacts."""
        files = [artifact_result([part], part.get("filename", "")) for part in self._run.inputs.get("files", [])]
        self._references |= {file: {"file": number} for number, file in enumerate(files)}
        return {"text": "", **self._run.inputs, "files": files}

    def template_names(self, **more: Any) -> JSON:
        return {"inputs": self.inputs, "steps": self, **more}

    def serialize(self, value: Any) -> Any:
        """A value as JSON with references to results. Raises ValueError if it is not JSON."""
        if isinstance(value, ArtifactResult | StepResult):
            return {REFERENCE_KEY: self._references[value]}
        if isinstance(value, list | tuple):
            return [self.serialize(one) for one in value]
        if not isinstance(value, dict):
            return clean(value)
        made = {clean(name): self.serialize(one) for name, one in value.items()}
        # An agent's own data must not be read as a reference.
        return {REFERENCE_KEY: {"value": made}} if REFERENCE_KEY in made else made

    def deserialize(self, stored: Any) -> Any:
        """The inverse of `serialize`. Raises ValueError if a result was deleted."""
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
        raise ValueError("The item of the list was deleted.")

    def prefetch(self, steps: Iterable[Step]) -> None:
        """Load the results that the items of these steps refer to."""
        found = (place for step in steps for place in stored_references(step.value))
        self._read_steps({place["step"] for place in found if "step" in place})

    def _read_steps(self, keys: Set[str]) -> None:
        if unread := keys - self._by_step.keys():
            self.of_steps(list(Step.objects.select_related("task").filter(pk__in=unread)))

    def of_round(self, step: Step, round_: int) -> StepResult:
        steps = Step.objects.select_related("task").filter(run=step.run_id, key=step.key)
        return self.of_steps([steps.get(item=step.item, round=round_)])[0]

    def of_steps(self, steps: Sequence[Step]) -> list[StepResult]:
        """The results of steps with loaded tasks, by one query per TASKS_AT_ONCE. Raises ValueError if too large."""
        keys = [step.task_id for step in steps if step.task_id]
        made: dict[uuid.UUID, list[ArtifactResult]] = {}
        size = 0
        for artifact in _artifacts_of(keys):
            size += sum(size_of(part) or 0 for part in artifact.parts if _is_readable(part))
            if size > MOST_BYTES_OF_A_KEY:
                most = f"{MOST_BYTES_OF_A_KEY:,} bytes in all"
                raise ValueError(f"The results of `{steps[0].key}` are larger than {most}.")
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
    for some in batched(tasks, TASKS_AT_ONCE):
        yield from (
            artifact for artifact in ARTIFACTS_OF_TASKS.all(list(some)) if artifact.state == Artifact.State.DELIVERED
        )


def stored_references(stored: Any) -> Iterator[JSON]:
    """The references in a serialized value."""
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
    """An artifact for templates, from parts whose content may be stored in files."""
    read = ArtifactResult.of(name, [_read_part(part) for part in parts])
    data = read.data
    if data is None and read.media_type == JSON_TYPE:
        part = next(part for part in parts if declared_media_type(part) == JSON_TYPE)
        with suppress(ValueError):
            data = strict_json.read(read.text or blobs.head_of(part, MOST_BYTES))
    return replace(read, data=data, parts=tuple(parts))


def _read_part(part: JSON) -> JSON:
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
    """What is wrong with these artifacts, as a sentence; "" if nothing is."""
    if not artifacts:
        return "There is no artifact."
    artifact = next((one for one in artifacts if check.artifact in ("", one.name)), None)
    if artifact is None:
        return f"There is no artifact `{check.artifact}`; there are {listed(one.name for one in artifacts)}."
    what = f"The artifact `{artifact.name}`" if artifact.name else "The artifact"
    return (
        _problem_with_type(check.media_type, artifact, what)
        or (_problem_with_data(check.json_schema, artifact, what) if check.json_schema is not None else "")
        or (_problem_with_columns(check.columns, artifact, what) if check.columns else "")
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


def _problem_with_data(schema: JSON, artifact: ArtifactResult, what: str) -> str:
    if artifact.data is None:
        return f"{what} holds no JSON."
    for steps, sentence in json_schema.violations(schema, artifact.data):
        path = "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)  # RFC 9535
        return f"{what}, at `{path}`: {sentence}"
    return ""


def _problem_with_columns(wanted: Sequence[str], artifact: ArtifactResult, what: str) -> str:
    header = csv_columns(artifact.text)
    missing = [name for name in wanted if name not in header]
    if not missing:
        return ""
    if not header:
        return f"{what} is no CSV file; it has to have the columns {listed(wanted)}."
    noun = "column" if len(missing) == 1 else "columns"
    return f"{what} has no {noun} {listed(missing)}; it has {listed(header)}."


def csv_columns(text: str) -> list[str]:
    """The header of a CSV file with commas, semicolons or tabs; [] for invalid CSV."""
    line = next((line for line in text.removeprefix("\ufeff").splitlines() if line.strip()), "")
    delimiter = max(",;\t", key=line.count)
    try:
        return [name.strip() for name in next(csv.reader(io.StringIO(line), delimiter=delimiter), [])]
    except csv.Error:
        return []
