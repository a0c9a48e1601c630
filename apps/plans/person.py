"""A person as an agent: asks what a plan wants of somebody, looks at what comes, and delivers it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from agentkit import Artifact, Completed, InputRequired, Outcome, Skill, SkillHandler, SyncTaskContext
from agentkit.parts import Part
from apps.plans.definitions import Check
from apps.plans.outputs import result_of
from apps.plans.results import problem_with
from apps.record import answers
from apps.record.errors import InvalidParams

PERSON = "person"  # the slug of the agent
REQUEST = "parleyRequest"  # the key of the data part that says what is wanted
ANSWER = "answer"  # the artifact that a form becomes, and the slot
UPLOAD = "file"


class Person(SkillHandler):
    """Whoever the work is for: asked for decisions, for approval, and for files such as measurements.

    The message says what is wanted: text for the person, and a data part `{"parleyRequest": {"schema", "upload",
    "output"}}`. What does not fit is asked for again, with a sentence that says why.
    """

    name = "Person"
    version = "1.0.0"
    skills = (
        Skill(
            "ask", "Ask a person", "Asks the person whom the work is for, and waits for days if need be.", ["person"]
        ),
    )
    input_modes = ("*/*",)
    output_modes = ("*/*",)
    retry_safe = True

    def on_request(self, task: SyncTaskContext) -> Outcome:
        wanted = _wanted(task.message.data)
        request = next(filter(_is_request, task.message.parts), None)  # the others are somebody's data, to be seen
        shown = [part for part in task.message.parts if part is not request]
        task.memory["wanted"] = wanted
        return InputRequired(shown or [{"text": "What is your answer?"}], slot=ANSWER, schema=_form(wanted))

    def on_input_received(self, task: SyncTaskContext) -> Outcome:
        wanted = task.memory.get("wanted", {})
        try:
            return _taken(task, wanted)
        except _Unfit as unfit:
            return InputRequired(str(unfit), slot=ANSWER, schema=_form(wanted))


class _Unfit(Exception):
    """What came is not what was wanted; the text says why and what to send."""


def _taken(task: SyncTaskContext, wanted: dict[str, Any]) -> Outcome:
    """What the person delivers. Raises _Unfit."""
    made: list[Artifact] = []
    if wanted.get("upload"):
        if not task.message.files:
            raise _Unfit("Please send the file: a message without one does not answer this.")
        check = Check.model_validate(wanted.get("output") or {})
        name = check.artifact
        for number, file in enumerate(task.message.files):
            made.append(Artifact([file.part], name if name and not number else file.name or f"file {number + 1}"))
        _check(check, made)
    text = task.message.text.strip()
    if (schema := wanted.get("schema")) is not None:
        made.append(Artifact.json(ANSWER, _answer(task.message.data, text, schema)))
    elif not made:
        if not text and not task.message.files:
            raise _Unfit("Please answer in words.")
        made += [Artifact.text(ANSWER, text)] if text else []
        made += [Artifact([file.part], file.name) for file in task.message.files]
    said = text or ("Here is what was asked for." if made else "Done.")
    return Completed(said, made)


def _check(check: Check, made: list[Artifact]) -> None:
    results = [result_of([dict(part) for part in one.parts], one.name) for one in made]
    if problem := problem_with(check, results):
        raise _Unfit(f"{problem} Please send another file.")


def _answer(given: list[Any], text: str, schema: dict[str, Any]) -> Any:
    """The answer, as its schema says. Raises _Unfit."""
    values = [*given, *_read(text)]
    properties = schema.get("properties")
    if not values and text and isinstance(properties, dict) and len(properties) == 1:
        values = [{next(iter(properties)): text}]
    if not values:
        raise _Unfit("Please fill in the form: an answer is needed.")
    try:
        answers.check(schema, values[0], ANSWER)
    except InvalidParams as error:
        raise _Unfit(f"That does not fit: {error} Please answer again.") from None
    return values[0]


def _read(text: str) -> list[Any]:
    with suppress(ValueError, RecursionError):
        if isinstance(value := json.loads(text), dict | list):
            return [value]
    return []


def _wanted(data: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(
        (one[REQUEST] for one in data if isinstance(one, dict) and isinstance(one.get(REQUEST), dict)), {}
    )
    return {name: found[name] for name in ("schema", "upload", "output") if name in found}


def _is_request(part: Part) -> bool:
    data = part.get("data")
    return isinstance(data, dict) and REQUEST in data


def _form(wanted: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of the answer, of which people are shown a form; a file is a field of it."""
    schema: dict[str, Any] | None = wanted.get("schema")
    if not wanted.get("upload"):
        return schema
    media_type = (wanted.get("output") or {}).get("media_type", "")
    file: dict[str, Any] = {"type": "string", "format": "binary", "title": "File"}
    file |= {"contentMediaType": media_type} if media_type else {}
    known = schema or {"type": "object", "properties": {}}
    properties = {UPLOAD: file, **known.get("properties", {})}
    return {**known, "type": "object", "properties": properties, "required": [UPLOAD, *known.get("required", [])]}
