"""What an agent said in a turn, laid out as parts to be checked, put back after it, and written as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from agentkit import (
    Artifact,
    Chunk,
    Completed,
    Emission,
    Failed,
    Foreign,
    InputRequired,
    Outcome,
    Part,
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


def parts_of(emission: Emission) -> list[JSON]:
    """What of an emission people can read."""
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


def with_parts[E: Emission](emission: E, parts: Sequence[JSON]) -> E:
    """The emission with other parts, one for one with `parts_of`."""
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
    found: dict[object, Emission] = {}
    for number, one in enumerate(emissions):
        match one:
            case Token():
                before = found.get(Token)
                found[Token] = Token(getattr(before, "text", "") + one.text)
            case WholeAnswer():
                found.pop(Token, None)
                found[Token] = one
            case Chunk() if one.append and isinstance(before := found.get(one.artifact_id), Chunk):
                parts = [*before.parts, *one.parts]
                found[one.artifact_id] = dataclasses.replace(before, parts=_whole(parts), last=one.last)
            case Chunk():
                found[one.artifact_id] = one
            case _:
                found[number] = one
    return list(found.values())


def _whole(parts: list[Part]) -> list[Part]:
    return cast("list[Part]", pieces_joined(cast("list[JSON]", parts)))


def laid_out(emissions: Sequence[Emission], outcome: Outcome) -> tuple[list[JSON], PutBack]:
    """All parts of what was said, and what puts such parts back."""
    artifacts = list(outcome.artifacts) if isinstance(outcome, Completed) else []
    groups = [*map(parts_of, emissions), [dict(part) for part in outcome.parts]]
    groups += [[dict(part) for part in one.parts] for one in artifacts]

    def put_back(parts: Sequence[JSON]) -> Said:
        left = iter(parts)
        found = [[next(left) for _ in group] for group in groups]
        said = [with_parts(one, given) for one, given in zip(emissions, found, strict=False)]
        words, files = found[len(emissions)], found[len(emissions) + 1 :]
        changed: JSON = {"message": words or None} if words != groups[len(emissions)] else {}
        if artifacts:
            changed["artifacts"] = [
                dataclasses.replace(one, parts=cast("list[Part]", given))
                for one, given in zip(artifacts, files, strict=True)
            ]
        return said, dataclasses.replace(outcome, **changed)

    return [part for group in groups for part in group], put_back


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
