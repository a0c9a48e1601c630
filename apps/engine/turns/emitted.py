"""What an agent said in a turn, laid out as parts to be checked, put back after it, and written as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from agentkit import (
    Artifact,
    AuthRequired,
    Chunk,
    Completed,
    Emission,
    Failed,
    Foreign,
    InputRequired,
    Outcome,
    Part,
    PaymentRequired,
    Progress,
    Rejected,
    SkillChosen,
    Thought,
    Token,
    ToolCall,
    ToolResult,
    WholeAnswer,
)
from apps.record.content.parts import pieces_joined
from apps.record.events import JSON

type Said = tuple[list[Emission], Outcome]
PutBack = Callable[[Sequence[JSON]], Said]
"""What was said, with other parts in the same places."""

DATA = {ToolCall: "arguments", ToolResult: "result", Foreign: "said"}
"""The fields that have any JSON."""
LABELS: dict[type[Any], tuple[str, ...]] = {
    Chunk: ("name", "description", "metadata"),
    Progress: ("metadata",),
    ToolCall: ("name",),
    ToolResult: ("name", "app"),
}
"""The other fields that people can read."""


class CannotHide(Exception):
    """What a guardrail found cannot be taken out of the question. `str()` is a sentence for people."""

    def __str__(self) -> str:
        return (
            "A guardrail found something in the agent's question that cannot be taken out, so it was not asked. "
            "Ask for something else, or ask a manager of the workspace."
        )


def labels_of(emission: Emission) -> list[JSON]:
    """What people can read beside the content, as one part of data; none if there is nothing."""
    values = [getattr(emission, name) for name in LABELS.get(type(emission), ())]
    return [{"data": values}] if any(values) else []


def with_labels[E: Emission](emission: E, labels: Sequence[JSON]) -> E:
    """The emission with other labels, one for one with `labels_of`."""
    if not labels:
        return emission
    changed = dict(zip(LABELS[type(emission)], labels[0]["data"], strict=True))
    if isinstance(emission, ToolResult) and changed["app"] != emission.app:
        changed["app"] = None  # its page shows what was hidden
    return dataclasses.replace(emission, **changed)


def parts_of(emission: Emission) -> list[JSON]:
    """What of an emission people can read: its content, then its labels."""
    return [*_content_of(emission), *labels_of(emission)]


def with_parts[E: Emission](emission: E, parts: Sequence[JSON]) -> E:
    """The emission with other parts, one for one with `parts_of`."""
    size = len(parts) - len(labels_of(emission))
    return with_labels(_with_content(emission, parts[:size]), parts[size:])


def _content_of(emission: Emission) -> list[JSON]:
    match emission:
        case Token() | WholeAnswer() | Thought():
            return [{"text": emission.text}]
        case Chunk():
            return [dict(part) for part in emission.parts]
        case Progress():
            shown = [dict(part) for part in emission.parts]
            return [{"text": emission.text}, {"text": emission.detail}, *shown]
        case ToolCall() | ToolResult() | Foreign():
            return [{"data": getattr(emission, DATA[type(emission)])}]
    return []


def _with_content[E: Emission](emission: E, parts: Sequence[JSON]) -> E:
    match emission:
        case Token() | WholeAnswer() | Thought():
            return dataclasses.replace(emission, text=parts[0]["text"])
        case Chunk():
            return dataclasses.replace(emission, parts=cast("list[Part]", list(parts)))
        case Progress():
            said = {"text": parts[0]["text"], "detail": parts[1]["text"], "parts": list(parts[2:])}
            return dataclasses.replace(emission, **said)
        case ToolCall() | ToolResult() | Foreign():
            changed: dict[str, Any] = {DATA[type(emission)]: parts[0]["data"]}
            if isinstance(emission, ToolResult) and parts[0]["data"] != emission.result:
                changed["app"] = None  # a page that shows the result
            return dataclasses.replace(emission, **changed)
    return emission


def joined(emissions: Iterable[Emission]) -> list[Emission]:
    """The emissions with one for the streamed text, and one for each artifact, so that each text is whole."""
    found: dict[object, list[Any]] = {}
    for number, one in enumerate(emissions):
        match one:
            case Token():
                found.setdefault(Token, []).append(one)
            case WholeAnswer():
                found.pop(Token, None)
                found[Token] = [one]
            case Chunk() if one.append:
                found.setdefault(one.artifact_id, []).append(one)
            case Chunk():
                found[one.artifact_id] = [one]
            case _:
                found[number] = [one]
    return [pieces[0] if len(pieces) == 1 else _whole(pieces) for pieces in found.values()]


def _whole(pieces: Sequence[Any]) -> Emission:
    """One emission for the pieces of the streamed text or of an artifact."""
    first = pieces[0]
    if not isinstance(first, Chunk):
        return Token("".join(one.text for one in pieces))
    parts = pieces_joined([dict(part) for one in pieces for part in one.parts])
    return dataclasses.replace(first, parts=cast("list[Part]", parts), last=pieces[-1].last)


KEYWORDS = frozenset((
    "$ref", "$schema", "$defs", "additionalProperties", "allOf", "anyOf", "const", "default", "description", "enum",
    "examples", "format", "items", "maximum", "maxItems", "maxLength", "minimum", "minItems", "minLength", "oneOf",
    "pattern", "properties", "required", "title", "type",
))  # fmt: skip
TYPES = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))


def _words_of(schema: Any) -> list[Any]:
    """What a JSON Schema says beside the schema language: names, titles, choices and defaults."""
    if isinstance(schema, Mapping):
        names = [name for name in schema if name not in KEYWORDS]
        return names + [word for one in schema.values() for word in _words_of(one)]
    if isinstance(schema, list | tuple):
        return [word for one in schema for word in _words_of(one)]
    return [] if schema is None or isinstance(schema, bool) or schema in TYPES else [schema]


def _asked(outcome: Outcome) -> list[Any]:
    """What people read of a question beside its message."""
    if not isinstance(outcome, InputRequired | AuthRequired):
        return []
    slot = "" if str(outcome.slot).isidentifier() else outcome.slot
    shown = [slot, _words_of(outcome.schema), outcome.value]
    if isinstance(outcome, AuthRequired):
        return [*shown, outcome.service]
    calls = [[one.get(name) for name in SHOWN_OF_CALLS] + _words_of(one.get("schema")) for one in outcome.calls]
    paid = [outcome.description, outcome.extra] if isinstance(outcome, PaymentRequired) else []
    return [*shown, calls, paid]


SHOWN_OF_CALLS = ("tool", "title", "description", "effect", "arguments", "why")


def laid_out(emissions: Sequence[Emission], outcome: Outcome) -> tuple[list[JSON], PutBack]:
    """All parts of what was said, and what puts such parts back. That raises CannotHide."""
    artifacts = list(outcome.artifacts) if isinstance(outcome, Completed) else []
    labels = [outcome.metadata, [[one.name, one.description, one.metadata] for one in artifacts], _asked(outcome)]
    groups = [*map(parts_of, emissions), [dict(part) for part in outcome.parts]]
    groups += [[dict(part) for part in one.parts] for one in artifacts]
    groups += [[{"data": labels}] if any(labels) else []]

    def put_back(parts: Sequence[JSON]) -> Said:
        left = iter(parts)
        found = [[next(left) for _ in group] for group in groups]
        said = [with_parts(one, given) for one, given in zip(emissions, found, strict=False)]
        words, files = found[len(emissions)], found[len(emissions) + 1 : -1]
        metadata, named, asked = found[-1][0]["data"] if found[-1] else labels
        if asked != labels[2]:
            raise CannotHide
        changed: JSON = {"message": words or None} if words != groups[len(emissions)] else {}
        changed |= {"metadata": metadata} if metadata != outcome.metadata else {}
        if artifacts:
            changed["artifacts"] = [_with(one, *given) for one, *given in zip(artifacts, files, named, strict=True)]
        return said, dataclasses.replace(outcome, **changed)

    return [part for group in groups for part in group], put_back


def _with(artifact: Artifact, parts: Sequence[JSON], labels: Sequence[Any]) -> Artifact:
    name, description, metadata = labels
    said: JSON = {"name": name, "description": description, "metadata": metadata}
    return dataclasses.replace(artifact, parts=cast("list[Part]", list(parts)), **said)


WAITING = (Completed, Failed, Rejected)
KINDS: dict[str, type[Any]] = {
    one.__name__: one
    for one in (*WAITING, InputRequired, Chunk, Foreign, Progress, SkillChosen, Thought, Token, ToolCall, ToolResult)
} | {WholeAnswer.__name__: WholeAnswer}


def may_wait(outcome: Outcome) -> bool:
    """Can the outcome be kept until somebody has decided? What asks for approval, a credential or money cannot."""
    return type(outcome) in WAITING or (type(outcome) is InputRequired and not (outcome.calls or outcome.repeats))


def written(emissions: Iterable[Emission], outcome: Outcome) -> JSON:
    """What was said, as JSON."""
    return {"emissions": [_written(one) for one in emissions], "outcome": _written(outcome)}


def read(kept: JSON) -> Said:
    """What `written` wrote."""
    emissions = [KINDS[one["kind"]](**one["fields"]) for one in kept["emissions"]]
    outcome = dict(kept["outcome"]["fields"])
    if "artifacts" in outcome:
        outcome["artifacts"] = [Artifact(**one) for one in outcome["artifacts"]]
    return emissions, KINDS[kept["outcome"]["kind"]](**outcome)


def _written(one: object) -> JSON:
    fields = dict(vars(one))
    if isinstance(one, Completed):
        fields["artifacts"] = [dict(vars(artifact)) for artifact in one.artifacts]
    return {"kind": type(one).__name__, "fields": fields}
