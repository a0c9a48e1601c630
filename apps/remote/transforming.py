"""What a remote agent says, in the record's words: one table by the kind of an event, one by the name of an artifact.

Whatever came before, in a stream that broke off or in a task that was fetched, is not said twice. What none of our
words fits is kept as `Foreign`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agentkit import Chunk, Emission, Foreign, Progress, Thought, Token, ToolCall, ToolResult, WholeAnswer
from apps.record.events import JSON
from apps.record.lifecycle import TaskState
from apps.remote.contents import Heard, digest

LONGEST_ID = 200
LONGEST_NAME = 250
CONTENTS = ("text", "raw", "url", "data")
KNOWN = {
    "statusUpdate": {"taskId", "contextId", "status", "metadata"},
    "artifactUpdate": {"taskId", "contextId", "artifact", "append", "lastChunk", "metadata"},
    "task": {"id", "contextId", "status", "artifacts", "history", "metadata"},
    "status": {"state", "message", "timestamp"},
    "artifact": {"artifactId", "name", "description", "parts", "metadata", "extensions"},
    "message": {"messageId", "contextId", "taskId", "role", "parts", "metadata", "extensions", "referenceTaskIds"},
}
"""The fields that have a place of their own; others are kept as they are."""


def state_of(status: JSON) -> TaskState | None:
    """The state that a remote status names; None for one that A2A does not know."""
    try:
        return TaskState.from_wire(str(status.get("state", "")))
    except ValueError:
        return None


def is_settled(task: JSON) -> bool:
    """Has the remote task ended, or does it ask for something?"""
    state = state_of(task["status"])
    return state is not None and state.is_settled


class Transformation:
    """Makes emissions of one remote task's events; knows what was said already.

    Attributes:
        answer: the text that was said as tokens, or as a whole.
    """

    def __init__(self, *, prefix: str = "", heard: str = "") -> None:
        """`prefix` tells the artifacts from those of another remote task; `heard` is the last message's id."""
        self.answer = ""
        self._full = ""
        self._prefix = prefix
        self._heard_messages = {heard} if heard else set()
        self._artifacts: dict[str, Heard] = {}
        self._names: dict[str, str] = {}  # of artifacts, by their id
        self._chunks: dict[str, str] = {}  # the names of artifacts that are recorded as such, by their id
        self._kept: set[str] = set()  # digests

    def event(self, event: JSON) -> list[Emission]:
        """What an event of a stream says (A2A 1.0 §3.2.3)."""
        said: list[Emission] = []
        for kind, body in event.items():
            told = EVENTS.get(kind)
            said += told(self, body) if told else self._foreign({kind: body})
        return said

    def status(self, update: JSON) -> list[Emission]:
        """Progress: the words of a state in which the task settles are its outcome's."""
        status, hints = update["status"], update.get("metadata") or {}
        state, said = state_of(status), self._strange("statusUpdate", update)
        said += self._strange("status", status)
        if state is None:
            said += self._foreign({"state": status.get("state")})
        message = status.get("message")
        progress = hints.get("progress")
        if message and not (state is not None and state.is_settled):
            said += self._progress(message, progress if isinstance(progress, dict) else {})
            hints = {name: value for name, value in hints.items() if name != "progress"}
        if state is None or not state.is_interrupted:  # the question has its own place
            said += self._foreign({"statusUpdate": {"metadata": hints}} if hints else {})
        return said

    def artifact(self, update: JSON) -> list[Emission]:
        artifact: JSON = update["artifact"]
        key = artifact["artifactId"]
        append = bool(update.get("append")) and key in self._artifacts
        heard = self._artifacts[key] if append else Heard()
        self._artifacts[key] = heard
        if append and not artifact.get("name"):  # a later piece need not repeat it
            artifact = {**artifact, "name": self._names[key]}
        self._names[key] = _word(artifact.get("name"))
        parts, strange = sorted_out(artifact.get("parts", []))
        heard.add(parts)
        heard.closed |= bool(update.get("lastChunk"))
        said = self._strange("artifactUpdate", update) + self._strange("artifact", artifact) + self._foreign(strange)
        if metadata := update.get("metadata"):
            said += self._foreign({"artifactUpdate": {"metadata": metadata}})
        meant = NAMED.get(artifact.get("name", ""))
        in_record = append and key in self._chunks
        if meant is None:
            return [*said, self._chunk(artifact, parts, append=in_record, last=bool(update.get("lastChunk")))]
        others = [part for part in parts if "text" not in part and "data" not in part]
        said += meant(self, artifact, parts, append)
        if others:  # a file has no place among words
            said.append(self._chunk(artifact, others, append=in_record, last=False))
        elif about := {name: artifact[name] for name in ("metadata", "extensions") if artifact.get(name)}:
            said += self._foreign({"artifact": {"name": artifact["name"], **about}})
        return said

    def task(self, task: JSON, *, final: bool = False) -> list[Emission]:
        """What a task that was fetched says beyond what was heard. With `final`, what it says differently counts."""
        said = self._strange("task", task)
        if metadata := task.get("metadata"):
            said += self._foreign({"task": {"metadata": metadata}})
        for artifact in task.get("artifacts") or []:
            said += self._again(artifact, final)
        if final:
            said += self._missed(task)
        return said + self.status({"status": task["status"]})

    def ending(self) -> list[Emission]:
        """What is left to be said when the task completes: that its artifacts are whole, and its answer too."""
        said: list[Emission] = []
        if self._full and self._full != self.answer:
            self.answer = self._full
            said.append(WholeAnswer(self.answer))
        for key, name in self._chunks.items():
            if not self._artifacts[key].closed:
                said.append(Chunk(self._id(key), name, "", [], append=True, last=True))
        return said

    def _again(self, artifact: JSON, final: bool) -> list[Emission]:
        heard = self._artifacts.get(artifact["artifactId"])
        if heard is None:
            return self.artifact({"artifact": artifact})
        parts, _ = sorted_out(artifact.get("parts", []))
        rest = heard.rest_of(parts)
        if rest:
            return self.artifact({"artifact": {**artifact, "parts": rest}, "append": True})
        is_other = rest is None and final and artifact.get("name", "") not in WORDS
        return self.artifact({"artifact": artifact}) if is_other else []

    def _missed(self, task: JSON) -> list[Emission]:
        """The answer as the whole task has it, where what was heard lacks some of it or has another order."""
        pieces = [one for one in task.get("artifacts") or [] if one.get("name") in OUTPUT]
        whole = "".join(_text(sorted_out(one.get("parts", []))[0]) for one in pieces)
        if self._full or whole == self.answer or len(whole) < len(self.answer):
            return []
        self.answer = whole
        return [WholeAnswer(whole)]

    # By the name of an artifact

    def _output(self, artifact: JSON, parts: list[JSON], append: bool) -> list[Emission]:
        text = _text(parts)
        if not text or self._full:  # the whole answer is there
            return []
        self.answer += text
        return [Token(text)]

    def _full_output(self, artifact: JSON, parts: list[JSON], append: bool) -> list[Emission]:
        self._full = (self._full if append else "") + _text(parts)
        if self._full.startswith(self.answer):
            more = self._full[len(self.answer) :]
            self.answer = self._full
            return [Token(more)] if more else []
        return []  # a begin of what was said; or `ending` finds that it differs

    def _thought(self, artifact: JSON, parts: list[JSON], append: bool) -> list[Emission]:
        return [Thought(text)] if (text := _text(parts)) else []

    def _tool_call(self, artifact: JSON, parts: list[JSON], append: bool) -> list[Emission]:
        said: list[Emission] = []
        for value in _values(parts):
            told = dict(value) if isinstance(value, dict) else {"arguments": value}
            call_id, name = _first(told, CALL_IDS), _first(told, TOOL_NAMES)
            arguments = _parsed(_first(told, ARGUMENTS))
            given = arguments if isinstance(arguments, dict) else {} if arguments is None else {"value": arguments}
            said.append(ToolCall(_word(call_id) or artifact["artifactId"], _word(name) or "tool", given))
            said += self._foreign({"tool_call": told} if told else {})
        return said

    def _tool_result(self, artifact: JSON, parts: list[JSON], append: bool) -> list[Emission]:
        said: list[Emission] = []
        for value in _values(parts):
            told = dict(value) if isinstance(value, dict) else {"result": value}
            call_id, name = _first(told, CALL_IDS), _first(told, TOOL_NAMES)
            error = _first(told, ERRORS)
            result = _first(told, RESULTS)
            said.append(
                ToolResult(
                    _word(call_id) or artifact["artifactId"],
                    _word(name) or "tool",
                    error if result is None and error not in (None, False, True) else result,
                    is_error=bool(error),
                )
            )
            said += self._foreign({"tool_result": told} if told else {})
        return said

    # Of all kinds

    def _chunk(self, artifact: JSON, parts: list[JSON], *, append: bool, last: bool) -> Chunk:
        name = _word(artifact.get("name"))[:LONGEST_NAME]
        self._chunks[artifact["artifactId"]] = name
        return Chunk(
            self._id(artifact["artifactId"]),
            name,
            _word(artifact.get("description")),
            parts,  # type: ignore[arg-type]
            append,
            last,
            artifact.get("metadata") or {},
            artifact.get("extensions") or (),
        )

    def _progress(self, message: JSON, hints: JSON) -> list[Emission]:
        message_id = _word(message.get("messageId"))[:LONGEST_ID]
        if message_id in self._heard_messages:
            return []
        if message_id:
            self._heard_messages = {message_id}
        parts, strange = sorted_out(message.get("parts", []))
        said = self._strange("message", message) + self._foreign(strange)
        if not parts:
            return said
        progress = Progress(
            _text(parts),
            _number(hints.get("done")),
            _number(hints.get("total")),
            parts=parts,  # type: ignore[arg-type]
            message_id=message_id,
            metadata=message.get("metadata") or {},
        )
        return [progress, *said]

    def _id(self, key: str) -> str:
        """The artifact's id in our task: its own, or where that is no id of ours, a digest of it."""
        own = f"{self._prefix}{key}"
        return own if own.isprintable() and 0 < len(own) <= LONGEST_ID else digest(own)

    def _strange(self, kind: str, body: JSON) -> list[Emission]:
        fields = {name: value for name, value in body.items() if name not in KNOWN[kind]}
        return self._foreign({kind: fields} if fields else {})

    def _foreign(self, said: JSON) -> list[Emission]:
        """Kept once, however often it is told."""
        if not said or (known := digest(said)) in self._kept:
            return []
        self._kept.add(known)
        return [Foreign(said)]


EVENTS: Mapping[str, Callable[[Transformation, JSON], list[Emission]]] = {
    "statusUpdate": Transformation.status,
    "artifactUpdate": Transformation.artifact,
    "task": Transformation.task,
}
Meaning = Callable[[Transformation, JSON, list[JSON], bool], list[Emission]]
NAMED: Mapping[str, Meaning] = {
    "output_start": Transformation._output,
    "output_delta": Transformation._output,
    "output_end": Transformation._output,
    "full_output": Transformation._full_output,
    "thinking_start": Transformation._thought,
    "thinking_delta": Transformation._thought,
    "thinking_end": Transformation._thought,
    "tool_call": Transformation._tool_call,
    "tool_result": Transformation._tool_result,
}
"""What artifacts of these names are; every other is an artifact of the record."""
OUTPUT = ("output_start", "output_delta", "output_end")
WORDS = (*OUTPUT, "thinking_start", "thinking_delta", "thinking_end")
"""Of these a later one of the same id may follow an earlier one, not replace it."""
CALL_IDS = ("callId", "call_id", "toolCallId", "tool_call_id", "id")
TOOL_NAMES = ("name", "toolName", "tool_name", "tool")
ARGUMENTS = ("arguments", "args", "input", "parameters")
RESULTS = ("result", "output", "content", "value")
ERRORS = ("isError", "is_error", "error")


def sorted_out(parts: Any) -> tuple[list[JSON], JSON]:
    """The parts that the record takes, and what is no such part. A link is one to the web."""
    good: list[JSON] = []
    strange: list[Any] = []
    for part in parts if isinstance(parts, list) else [parts]:
        kinds = [kind for kind in CONTENTS if kind in part] if isinstance(part, dict) else []
        fits = len(kinds) == 1 and "stored" not in part and (kinds == ["data"] or isinstance(part[kinds[0]], str))
        if fits and (kinds != ["url"] or part["url"].lower().startswith(("http://", "https://"))):
            good.append(part)
        else:
            strange.append(part)
    return good, {"parts": strange} if strange else {}


def _text(parts: Iterable[JSON]) -> str:
    return "".join(part["text"] for part in parts if "text" in part)


def _values(parts: Iterable[JSON]) -> list[Any]:
    """What data says, and text that may be JSON."""
    values = [
        part["data"] if "data" in part else _parsed(part["text"]) for part in parts if "data" in part or "text" in part
    ]
    return [value for value in values if value not in (None, "")]


def _parsed(value: Any) -> Any:
    """What a string says as JSON, or the string; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, parse_constant=str, parse_float=_finite)
    except (ValueError, RecursionError):
        return value


def _finite(digits: str) -> float | str:
    return number if math.isfinite(number := float(digits)) else digits


def _first(told: JSON, names: Iterable[str]) -> Any:
    """The value of the first of these names, taken out."""
    for name in names:
        if name in told:
            return told.pop(name)
    return None


def _word(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and math.isfinite(value) else None
