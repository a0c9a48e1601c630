"""What the steps of a run delivered, as templates see it: read from the record when something speaks of it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import batched
from typing import Any

from apps.engine.cleaning import clean
from apps.plans.models import PlanRun, Step
from apps.plans.plans import plan_at
from apps.plans.results import ArtifactResult, StepResult
from apps.record import blobs
from apps.record.events import JSON
from apps.record.models import Artifact
from apps.record.parts import known_media_type, size_of
from apps.record.wire import MADE
from db.selections import Selection

MOST_BYTES = 5_000_000  # of a part that a template may see
MOST_BYTES_OF_A_KEY = 50_000_000  # of all that the steps of one key delivered
TOGETHER = 200  # steps whose artifacts are read at once
JSON_TYPE = "application/json"
WHERE = "$"  # the key under which a stored value says where a result is

OF_A_KEY = Selection(
    lambda run, key: Step.objects.select_related("task").filter(run=run, key=key).order_by("item", "round"),
    uuid.UUID(int=0),
    "",
)
Result = StepResult | list[StepResult]


class Outputs(Mapping[str, Result]):
    """By key, the results of the steps of a run that are done: of a fan-out a list, of a repetition the last.

    It also knows the parts of the artifacts that it gave, which go along with a message where a step says so.
    """

    def __init__(self, run: PlanRun) -> None:
        self._run = run
        self._plan = plan_at(run.version_id)
        self._found: dict[str, Result] = {}
        self._where: dict[Any, JSON] = {}  # of each result that was given out, where it is in the record
        self._of_step: dict[str, StepResult] = {}

    def __getitem__(self, key: str) -> Result:
        if key not in self._plan.definition.steps:
            raise KeyError(key)
        if key not in self._found:
            self._found[key] = self._read(key)
        return self._found[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._plan.definition.steps)

    def __len__(self) -> int:
        return len(self._plan.definition.steps)

    @cached_property
    def inputs(self) -> JSON:
        """The inputs of the run; its files as artifacts are."""
        files = [result_of([part], part.get("filename", "")) for part in self._run.inputs.get("files", [])]
        self._where |= {file: {"file": number} for number, file in enumerate(files)}
        return {"text": "", **self._run.inputs, "files": files}

    def names(self, **more: Any) -> JSON:
        """What templates may speak of."""
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

    def stored(self, value: Any) -> Any:
        """A value of an expression as JSON: of a result, where it is. Raises ValueError for what JSON does not have."""
        if isinstance(value, ArtifactResult | StepResult):
            return {WHERE: self._where[value]}
        if isinstance(value, list | tuple):
            return [self.stored(one) for one in value]
        if not isinstance(value, dict):
            return clean(value)
        made = {clean(name): self.stored(one) for name, one in value.items()}
        return {WHERE: {"value": made}} if WHERE in made else made  # what an agent made is never read as a place

    def restored(self, stored: Any) -> Any:
        """The value again. Raises ValueError where a result has been deleted since."""
        if isinstance(stored, list):
            return [self.restored(one) for one in stored]
        if not isinstance(stored, dict):
            return stored
        if WHERE not in stored:
            return {name: self.restored(one) for name, one in stored.items()}
        match stored[WHERE]:
            case {"value": value}:
                return {name: self.restored(one) for name, one in value.items()}
            case {"file": number}:
                return self.inputs["files"][number]
            case {"step": step}:
                self._read_steps({step})
                return self._of_step[step]
            case {"task": task, "artifact": artifact}:
                if found := Artifact.objects.delivered().filter(task=task, artifact_id=artifact).first():
                    return self._artifact(found)
        raise ValueError("What it is to be done for has been deleted.")

    def read_for(self, steps: Iterable[Step]) -> None:
        """Read at once what the elements of these steps speak of."""
        self._read_steps({place["step"] for step in steps for place in places(step.value) if "step" in place})

    def _read_steps(self, keys: Set[str]) -> None:
        if unread := keys - self._of_step.keys():
            self.of_steps(list(Step.objects.select_related("task").filter(pk__in=unread)))

    def of_round(self, step: Step, round_: int) -> StepResult:
        """What another round of the step delivered."""
        steps = Step.objects.select_related("task").filter(run=step.run_id, key=step.key)
        return self.of_steps([steps.get(item=step.item, round=round_)])[0]

    def of_steps(self, steps: Sequence[Step]) -> list[StepResult]:
        """What these steps delivered, whose tasks should be loaded: by one query for each TOGETHER of them.

        Raises ValueError where that is more than may be held at once.
        """
        keys = [step.task_id for step in steps if step.task_id]
        made: dict[uuid.UUID, list[ArtifactResult]] = {}
        size = 0
        for artifact in _made_by(keys):
            size += sum(size_of(part) or 0 for part in artifact.parts if _is_read(part))
            if size > MOST_BYTES_OF_A_KEY:
                raise ValueError(
                    f"What `{steps[0].key}` delivered is larger than {MOST_BYTES_OF_A_KEY:,} bytes together."
                )
            made.setdefault(artifact.task_id, []).append(self._artifact(artifact))
        found = []
        for step in steps:
            artifacts = made.get(step.task_id, []) if step.task_id else []
            text = _text(step.task.status_message or {}) if step.task else ""
            found.append(result := StepResult.of(step.key, step.state, text, artifacts))
            self._where[result] = {"step": str(step.pk), "task": str(step.task_id or "")}
            self._of_step[str(step.pk)] = result
        return found

    def _read(self, key: str) -> Result:
        settled = OF_A_KEY.all(self._run.pk, key)
        last = {step.item: step for step in settled if step.state in Step.SETTLED}
        is_list = self._plan.step(key).for_each is not None
        results = self.of_steps([step for step in last.values() if not is_list or step.item >= 0])
        return results if is_list else results[0]

    def _artifact(self, artifact: Artifact) -> ArtifactResult:
        result = result_of(artifact.parts, artifact.name)
        self._where[result] = {"task": str(artifact.task_id), "artifact": artifact.artifact_id}
        return result


def _made_by(tasks: Sequence[uuid.UUID]) -> Iterator[Artifact]:
    """What some tasks delivered."""
    for some in batched(tasks, TOGETHER, strict=False):
        yield from (artifact for artifact in MADE.all(some) if artifact.state == Artifact.State.DELIVERED)


def places(stored: Any) -> Iterator[JSON]:
    """Where the results are that are in a stored value."""
    if isinstance(stored, list):
        for one in stored:
            yield from places(one)
    elif isinstance(stored, dict):
        match stored.get(WHERE):
            case None:
                yield from places(list(stored.values()))
            case {"value": made}:
                yield from places(list(made.values()))
            case where:
                yield where


def result_of(parts: Sequence[JSON], name: str) -> ArtifactResult:
    """An artifact as templates see it, of parts whose content may be kept in files."""
    read = ArtifactResult.of(name, [_read(part) for part in parts])
    data = read.data
    if data is None and read.media_type == JSON_TYPE:
        part = next(part for part in parts if known_media_type(part) == JSON_TYPE)
        with suppress(ValueError, RecursionError):
            data = json.loads(read.text or blobs.beginning_of(part, MOST_BYTES))
    return replace(read, data=data, parts=tuple(parts))


def _read(part: JSON) -> JSON:
    """The part with its content in it, where a template can make something of that."""
    if _is_read(part):
        return blobs.inline(part)
    about = {name: value for name, value in part.items() if name != "stored"}
    return {"url": "", **about, "mediaType": known_media_type(part)}


def _is_read(part: JSON) -> bool:
    if "stored" not in part:
        return True
    is_text = known_media_type(part).startswith("text/") or part["stored"]["kind"] != "raw"
    return is_text and bool(part["stored"]["size"] <= MOST_BYTES)


def _text(message: JSON) -> str:
    return "\n".join(part["text"] for part in message.get("parts", []) if part.get("text"))
