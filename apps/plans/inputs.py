"""What a plan is started with: checked against the schema of its inputs, and what is still to be asked for."""

from __future__ import annotations

from typing import Any

from apps.plans.definitions import PlanDefinition
from apps.plans.schemas import JSON, properties_of, with_defaults
from apps.record import answers

MISSING = " is a required property."
OWN_INPUTS = ("text", "files")
"""Inputs that every plan has: what the message said, and brought along."""


def inputs_of(definition: PlanDefinition, given: JSON) -> tuple[JSON, list[str]]:
    """The inputs, with defaults, and a sentence for each that is missing or cannot be."""
    inputs = with_defaults(definition.inputs, given)
    found = [_sentence(steps, sentence) for steps, sentence in _problems(definition, inputs)]
    return {"text": "", "files": [], **inputs}, found


def problems(definition: PlanDefinition, given: JSON) -> list[tuple[str, str]]:
    """What is missing or cannot be: a sentence for each, by its path, such as `inputs.city`."""
    found = _problems(definition, with_defaults(definition.inputs, given))
    return [
        (".".join(["inputs", *map(str, steps)]), "This is needed." if sentence.endswith(MISSING) else sentence)
        for steps, sentence in found
    ]


def asked_for(definition: PlanDefinition, given: JSON) -> JSON:
    """The JSON Schema of the inputs that are missing or cannot be; {} where nothing is to be asked for."""
    schema, inputs = definition.inputs, with_defaults(definition.inputs, given)
    found = _problems(definition, inputs)
    names = dict.fromkeys(str(steps[0]) for steps, _ in found if steps)
    asked = {name: field for name, field in properties_of(schema).items() if name in names}
    if not found:
        return {}
    if len(asked) < len(names) or any(not steps for steps, _ in found):
        return schema  # something is wrong with them as a whole
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {"type": "object", "properties": asked, "required": list(asked), **definitions}


def _problems(definition: PlanDefinition, inputs: JSON) -> list[tuple[list[Any], str]]:
    stated = properties_of(definition.inputs)
    looked_at = {
        name: value
        for name, value in inputs.items()
        if name not in OWN_INPUTS or (name in stated and value)  # a message without text, or files, has none
    }
    missing: list[tuple[list[Any], str]] = [
        ([name], f"{name!r}{MISSING}") for name in definition.inputs.get("required", []) if name not in looked_at
    ]
    found = answers.problems(definition.inputs, looked_at)  # which names the first of what is missing each time
    said = {sentence for _, sentence in missing}
    return missing + [one for one in found if len(one[0]) > 1 or one[1] not in said]


def _sentence(steps: list[Any], sentence: str) -> str:
    name = ".".join(map(str, steps))
    if sentence.endswith(MISSING):
        return f"`{name}` is needed."
    return f"`{name}`: {sentence}" if name else sentence
