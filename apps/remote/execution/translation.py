"""Translates a remote agent's events into emissions, and its settled task into the outcome.

Nothing is emitted twice, even if a stream breaks off and its task is fetched. To compare, the translator keeps digests,
because a turn may have 200 MB of artifacts. Values that the record has no place for are kept as `Foreign`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentkit import (
    AuthRequired,
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
    Thought,
    Token,
    ToolCall,
    ToolResult,
    WholeAnswer,
)
from apps.record.events import JSON
from apps.record.models import TaskState

LONGEST_ID = 200
LONGEST_NAME = 250

LONGEST_SLOT = 100
LONGEST_REPEATED_TEXT = 4_000  # characters of an artifact that replaces a missing message

CANCELED_THERE = "The agent itself canceled this task. Send the message again if you still want it."
SIGN_IN_SOMEWHERE = "The agent wants you to sign in, and does not say where. Ask it, or its operators."

CONTENT_FIELDS = ("text", "raw", "url", "data")
KNOWN_FIELDS = {
    "statusUpdate": {"taskId", "contextId", "status", "metadata"},
    "artifactUpdate": {"taskId", "contextId", "artifact", "append", "lastChunk", "metadata"},
    "task": {"id", "contextId", "status", "artifacts", "history", "metadata"},
    "status": {"state", "message", "timestamp"},
    "artifact": {"artifactId", "name", "description", "parts", "metadata", "extensions"},
    "message": {"messageId", "contextId", "taskId", "role", "parts", "metadata", "extensions", "referenceTaskIds"},
}


def state_of(status: JSON) -> TaskState | None:
    try:
        return TaskState.from_wire(str(status.get("state", "")))
    except ValueError:
        return None


def is_settled(task: JSON) -> bool:
    state = state_of(task["status"])
    return state is not None and state.is_settled


class TaskTranslator:
    """Translates the events of one remote task; remembers what was emitted.

    `answer` is the text that was emitted as tokens or as a whole.
    """

    def __init__(self, *, prefix: str = "", heard: str = "", is_resumed: bool = False) -> None:
        """`prefix` goes before artifact ids; `heard` is the id of the last message.

        `is_resumed`: an earlier worker heard the beginning.
        """
        self.answer = ""
        self.messages: dict[str, JSON] = {}  # the messages in the task's stream, by their id
        self._is_resumed = is_resumed
        self._full_answer = ""
        self._prefix = prefix
        self._heard_messages = {heard} if heard else set()
        self._artifacts: dict[str, HeardArtifact] = {}
        self._names: dict[str, str] = {}  # of artifacts, by their id
        self._chunks: dict[str, str] = {}  # the names of artifacts that are recorded as such, by their id
        self._kept_digests: set[str] = set()

    def event(self, event: JSON) -> list[Emission]:
        emissions: list[Emission] = []
        for kind, body in event.items():
            translate = EVENT_TRANSLATORS.get(kind)
            emissions += translate(self, body) if translate else self._foreign({kind: body})
        return emissions

    def status(self, update: JSON) -> list[Emission]:
        status, hints = update["status"], update.get("metadata") or {}
        state, emissions = state_of(status), self._unknown_fields("statusUpdate", update)
        emissions += self._unknown_fields("status", status)
        if state is None:
            emissions += self._foreign({"state": status.get("state")})
        message = status.get("message")
        progress = hints.get("progress")
        if message and not (state is not None and state.is_settled):
            emissions += self._progress(message, progress if isinstance(progress, dict) else {})
            hints = {name: value for name, value in hints.items() if name != "progress"}
        if state is None or not state.is_interrupted:  # the outcome has the question
            emissions += self._foreign({"statusUpdate": {"metadata": hints}} if hints else {})
        return emissions

    def artifact(self, update: JSON) -> list[Emission]:
        artifact: JSON = update["artifact"]
        key = artifact["artifactId"]
        append = bool(update.get("append")) and key in self._artifacts
        note: list[Emission] = []
        if update.get("append") and not append and artifact.get("name", "") not in ARTIFACT_TRANSLATORS:
            piece = {"artifactId": self.artifact_id(key), "append": True, "digest": digest(artifact.get("parts"))}
            note = self._foreign({"artifactUpdate": piece})  # of an artifact that never began
            if self._is_resumed:  # the record has the beginning, and the fetched task the whole
                return note
        heard = self._artifacts[key] if append else HeardArtifact()
        self._artifacts[key] = heard
        if append and not artifact.get("name"):  # a later piece need not repeat it
            artifact = {**artifact, "name": self._names[key]}
        self._names[key] = _as_text(artifact.get("name"))
        parts, unknown = sort_parts(artifact.get("parts", []))
        heard.add(parts)
        heard.closed |= bool(update.get("lastChunk"))
        emissions = (
            note
            + self._unknown_fields("artifactUpdate", update)
            + self._unknown_fields("artifact", artifact)
            + self._foreign(unknown)
        )
        if metadata := update.get("metadata"):
            emissions += self._foreign({"artifactUpdate": {"metadata": metadata}})
        translate = ARTIFACT_TRANSLATORS.get(artifact.get("name", ""))
        in_record = append and key in self._chunks
        if translate is None:
            return [*emissions, self._chunk(artifact, parts, append=in_record, last=bool(update.get("lastChunk")))]
        others = [part for part in parts if "text" not in part and "data" not in part]
        emissions += translate(self, artifact, parts, append)
        if others:  # a file cannot be part of streamed text
            emissions.append(self._chunk(artifact, others, append=in_record, last=False))
        elif details := {name: artifact[name] for name in ("metadata", "extensions") if artifact.get(name)}:
            emissions += self._foreign({"artifact": {"name": artifact["name"], **details}})
        return emissions

    def message(self, message: JSON) -> list[Emission]:
        """A message in the task's stream: words of the agent, perhaps a piece of them."""
        key = _as_text(message.get("messageId")) or digest(message)
        self._heard_messages.discard(key[:LONGEST_ID])
        earlier = self.messages.get(key, {}).get("parts", [])
        parts, _ = sort_parts(message.get("parts", []))
        if _text_continues(earlier, parts):  # the agent repeats its words so far
            earlier = []
        self.messages[key] = {**message, "parts": [piece.part for piece in join_text([*earlier, *parts])]}
        return self._progress(message, {})

    def task(self, task: JSON, *, final: bool = False) -> list[Emission]:
        emissions = self._unknown_fields("task", task)
        if metadata := task.get("metadata"):
            emissions += self._foreign({"task": {"metadata": metadata}})
        for artifact in task.get("artifacts") or []:
            emissions += self._fetched_artifact(artifact, final)
        if final:
            emissions += self._complete_answer(task)
        return emissions + self.status({"status": task["status"]})

    def finish(self) -> list[Emission]:
        """The rest of the answer, and the ends of artifacts that the completed task did not send."""
        emissions: list[Emission] = []
        if self._full_answer and self._full_answer != self.answer:
            self.answer = self._full_answer
            emissions.append(WholeAnswer(self.answer))
        for key, name in self._chunks.items():
            if not self._artifacts[key].closed:
                emissions.append(Chunk(self.artifact_id(key), name, "", [], append=True, last=True))
        return emissions

    def _fetched_artifact(self, artifact: JSON, final: bool) -> list[Emission]:
        heard = self._artifacts.get(artifact["artifactId"])
        if heard is None:
            return self.artifact({"artifact": artifact})
        parts, _ = sort_parts(artifact.get("parts", []))
        rest = heard.rest_of(parts)
        if rest:
            return self.artifact({"artifact": {**artifact, "parts": rest}, "append": True})
        is_other = rest is None and final and artifact.get("name", "") not in APPENDED_NAMES
        return self.artifact({"artifact": artifact}) if is_other else []

    def _complete_answer(self, task: JSON) -> list[Emission]:
        """The answer of the fetched task, if it has more than the stream."""
        pieces = [one for one in task.get("artifacts") or [] if one.get("name") in OUTPUT_NAMES]
        whole = "".join(_joined_text(sort_parts(one.get("parts", []))[0]) for one in pieces)
        if self._full_answer or whole == self.answer or len(whole) < len(self.answer):
            return []
        self.answer = whole
        return [WholeAnswer(whole)]

    # Artifacts, by name

    def _output(self, artifact: JSON, parts: list[JSON], append: bool) -> list[Emission]:
        text = _joined_text(parts)
        if not text or self._full_answer:  # the whole answer was emitted
            return []
        self.answer += text
        return [Token(text)]

    def _full_output(self, artifact: JSON, parts: list[JSON], append: bool) -> list[Emission]:
        self._full_answer = (self._full_answer if append else "") + _joined_text(parts)
        if self._full_answer.startswith(self.answer):
            more = self._full_answer[len(self.answer) :]
            self.answer = self._full_answer
            return [Token(more)] if more else []
        return []  # the task has the beginning, or another answer, which `finish` emits

    def _thought(self, artifact: JSON, parts: list[JSON], append: bool) -> list[Emission]:
        return [Thought(text)] if (text := _joined_text(parts)) else []

    def _tool_call(self, artifact: JSON, parts: list[JSON], append: bool) -> list[Emission]:
        emissions: list[Emission] = []
        for value in _data_values(parts):
            values = dict(value) if isinstance(value, dict) else {"arguments": value}
            call_id, name = _pop_first(values, CALL_ID_KEYS), _pop_first(values, TOOL_NAME_KEYS)
            arguments = _parse_if_json(_pop_first(values, ARGUMENT_KEYS))
            given = arguments if isinstance(arguments, dict) else {} if arguments is None else {"value": arguments}
            emissions.append(ToolCall(_as_text(call_id) or artifact["artifactId"], _as_text(name) or "tool", given))
            emissions += self._foreign({"tool_call": values} if values else {})
        return emissions

    def _tool_result(self, artifact: JSON, parts: list[JSON], append: bool) -> list[Emission]:
        emissions: list[Emission] = []
        for value in _data_values(parts):
            values = dict(value) if isinstance(value, dict) else {"result": value}
            call_id, name = _pop_first(values, CALL_ID_KEYS), _pop_first(values, TOOL_NAME_KEYS)
            error = _pop_first(values, ERROR_KEYS)
            result = _pop_first(values, RESULT_KEYS)
            emissions.append(
                ToolResult(
                    _as_text(call_id) or artifact["artifactId"],
                    _as_text(name) or "tool",
                    error if result is None and error not in (None, False, True) else result,
                    is_error=bool(error),
                )
            )
            emissions += self._foreign({"tool_result": values} if values else {})
        return emissions

    # Shared

    def _chunk(self, artifact: JSON, parts: list[JSON], *, append: bool, last: bool) -> Chunk:
        name = _as_text(artifact.get("name"))[:LONGEST_NAME]
        self._chunks[artifact["artifactId"]] = name
        return Chunk(
            self.artifact_id(artifact["artifactId"]),
            name,
            _as_text(artifact.get("description")),
            parts,  # type: ignore[arg-type]
            append,
            last,
            artifact.get("metadata") or {},
            artifact.get("extensions") or (),
            joined=append,
        )

    def _progress(self, message: JSON, hints: JSON) -> list[Emission]:
        message_id = _as_text(message.get("messageId"))[:LONGEST_ID]
        if message_id in self._heard_messages:
            return []
        if message_id:
            self._heard_messages = {message_id}
        parts, unknown = sort_parts(message.get("parts", []))
        emissions = self._unknown_fields("message", message) + self._foreign(unknown)
        if not parts:
            return emissions
        progress = Progress(
            _joined_text(parts),
            _as_number(hints.get("done")),
            _as_number(hints.get("total")),
            detail=_as_text(hints.get("detail")),
            parts=parts,  # type: ignore[arg-type]
            message_id=message_id,
            metadata=message.get("metadata") or {},
        )
        return [progress, *emissions]

    def artifact_id(self, key: str) -> str:
        """The artifact's own id, or a digest if the record does not allow that id."""
        own = f"{self._prefix}{key}"
        return own if own.isprintable() and 0 < len(own) <= LONGEST_ID else digest(own)

    def _unknown_fields(self, kind: str, body: JSON) -> list[Emission]:
        fields = {name: value for name, value in body.items() if name not in KNOWN_FIELDS[kind]}
        return self._foreign({kind: fields} if fields else {})

    def _foreign(self, said: JSON) -> list[Emission]:
        if not said or (known := digest(said)) in self._kept_digests:
            return []
        self._kept_digests.add(known)
        return [Foreign(said)]


EVENT_TRANSLATORS: Mapping[str, Callable[[TaskTranslator, JSON], list[Emission]]] = {
    "statusUpdate": TaskTranslator.status,
    "message": TaskTranslator.message,
    "artifactUpdate": TaskTranslator.artifact,
    "task": TaskTranslator.task,
}
ArtifactTranslator = Callable[[TaskTranslator, JSON, list[JSON], bool], list[Emission]]
ARTIFACT_TRANSLATORS: Mapping[str, ArtifactTranslator] = {
    "output_start": TaskTranslator._output,
    "output_delta": TaskTranslator._output,
    "output_end": TaskTranslator._output,
    "full_output": TaskTranslator._full_output,
    "thinking_start": TaskTranslator._thought,
    "thinking_delta": TaskTranslator._thought,
    "thinking_end": TaskTranslator._thought,
    "tool_call": TaskTranslator._tool_call,
    "tool_result": TaskTranslator._tool_result,
}
"""By name, artifacts that are not artifacts of the record."""
OUTPUT_NAMES = ("output_start", "output_delta", "output_end")
APPENDED_NAMES = (*OUTPUT_NAMES, "thinking_start", "thinking_delta", "thinking_end")
"""A later artifact of these names and of the same id may continue an earlier one."""
CALL_ID_KEYS = ("callId", "call_id", "toolCallId", "tool_call_id", "id")
TOOL_NAME_KEYS = ("name", "toolName", "tool_name", "tool")
ARGUMENT_KEYS = ("arguments", "args", "input", "parameters")
RESULT_KEYS = ("result", "output", "content", "value")
ERROR_KEYS = ("isError", "is_error", "error")


def sort_parts(parts: Any) -> tuple[list[JSON], JSON]:
    """The parts that the record takes, and the others. A link must be one to the web."""
    good: list[JSON] = []
    strange: list[Any] = []
    for part in parts if isinstance(parts, list) else [parts]:
        kinds = [kind for kind in CONTENT_FIELDS if kind in part] if isinstance(part, dict) else []
        fits = len(kinds) == 1 and "stored" not in part and (kinds == ["data"] or isinstance(part[kinds[0]], str))
        if fits and (kinds != ["url"] or part["url"].lower().startswith(("http://", "https://"))):
            good.append(part)
        else:
            strange.append(part)
    return good, {"parts": strange} if strange else {}


def _joined_text(parts: Iterable[JSON]) -> str:
    return "".join(part["text"] for part in parts if "text" in part)


def _data_values(parts: Iterable[JSON]) -> list[Any]:
    values = [
        part["data"] if "data" in part else _parse_if_json(part["text"])
        for part in parts
        if "data" in part or "text" in part
    ]
    return [value for value in values if value not in (None, "")]


def _parse_if_json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, parse_constant=str, parse_float=_finite)
    except (ValueError, RecursionError):
        return value


def _finite(digits: str) -> float | str:
    return number if math.isfinite(number := float(digits)) else digits


def _pop_first(told: JSON, names: Iterable[str]) -> Any:
    for name in names:
        if name in told:
            return told.pop(name)
    return None


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _as_number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and math.isfinite(value) else None


@dataclass(slots=True)
class Piece:
    """A part, or the joined text of several: agents split text arbitrarily. `text` is None for other parts."""

    label: str
    part: JSON
    text: str | None


@dataclass(slots=True)
class HeardPiece:
    label: str
    length: int = 0
    sum: Any = field(default_factory=hashlib.sha256)

    def add(self, text: str) -> None:
        self.length += len(text)
        self.sum.update(text.encode(errors="surrogatepass"))

    def begins(self, text: str) -> bool:
        """Does the text start with this?"""
        begin = text[: self.length].encode(errors="surrogatepass")
        return len(text) >= self.length and hashlib.sha256(begin).digest() == self.sum.digest()


class HeardArtifact:
    """What was received of one artifact. `closed`: its last chunk came."""

    def __init__(self) -> None:
        self.closed = False
        self._pieces: list[HeardPiece] = []

    def add(self, parts: Iterable[JSON]) -> None:
        for piece in join_text(parts):
            if piece.text is None or not self._pieces or self._pieces[-1].label != piece.label:
                self._pieces.append(HeardPiece(piece.label))
            if piece.text is not None:
                self._pieces[-1].add(piece.text)

    def rest_of(self, parts: Sequence[JSON]) -> list[JSON] | None:
        """What these parts add to the received ones; None if they do not start with those."""
        given = join_text(parts)
        if len(given) < len(self._pieces):
            return None
        rest: list[JSON] = []
        for number, (kept, piece) in enumerate(zip(self._pieces, given, strict=False)):
            if kept.label != piece.label:
                return None
            if piece.text is None:
                continue
            is_last = number == len(self._pieces) - 1
            if not kept.begins(piece.text) or (not is_last and len(piece.text) != kept.length):
                return None
            if more := piece.text[kept.length :]:
                rest.append({**piece.part, "text": more})
        return rest + [one.part for one in given[len(self._pieces) :]]


def join_text(parts: Iterable[JSON]) -> list[Piece]:
    """The parts with adjacent text of the same kind joined, without empty text."""
    pieces: list[Piece] = []
    for part in parts:
        text = part.get("text")
        if not isinstance(text, str):
            pieces.append(Piece(digest(part), part, None))
            continue
        label = _text_label(part)
        if pieces and pieces[-1].text is not None and pieces[-1].label == label:
            pieces[-1].text += text
            pieces[-1].part = {**pieces[-1].part, "text": pieces[-1].text}
        elif text:
            pieces.append(Piece(label, part, text))
    return pieces


def _text_label(part: JSON) -> str:
    labels = {name: value for name, value in part.items() if name != "text" and value}
    if labels.get("mediaType") == "text/plain":
        del labels["mediaType"]
    return "text" + (digest(labels) if labels else "")


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


ENDED_BADLY = (TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED)


def outcome_of(task: JSON, hints: JSON, answer: str, messages: Sequence[JSON] = ()) -> Outcome:
    """The outcome of a settled remote task.

    `hints` is the metadata of its last status update, which may describe the expected answer; `answer` is the streamed
    text; `messages` are the messages in its stream.
    """
    message = _final_message(task)
    if state_of(task["status"]) not in ENDED_BADLY:  # why it ended is not what was said on the way
        message = _with_earlier(message, messages)
    said, metadata = _message_parts(message), _message_metadata(message)
    match state_of(task["status"]):
        case TaskState.COMPLETED:
            return Completed(said or answer or _delivered_text(task) or None, metadata=metadata)
        case TaskState.FAILED:
            return Failed(said or "The agent says that it failed, and not why.", metadata=metadata)
        case TaskState.REJECTED:
            return Rejected(said or "The agent declined to do this, and did not say why.", metadata)
        case TaskState.CANCELED:
            return Failed(said or CANCELED_THERE, "canceled_by_agent", metadata)
        case TaskState.INPUT_REQUIRED:
            slot = _slot(message, hints, "input")
            return InputRequired(said or "The agent asks for more.", slot["name"], slot.get("schema"), metadata)
        case TaskState.AUTH_REQUIRED:
            slot = _slot(message, hints, "credential")
            return AuthRequired(said or SIGN_IN_SOMEWHERE, slot["name"], slot.get("schema"), metadata)
    raise AssertionError(f"a task that is {task['status'].get('state')!r} has not settled")


def outcome_of_message(message: JSON) -> Outcome:
    return Completed(_message_parts(message) or None, metadata=_message_metadata(message))


def _final_message(task: JSON) -> JSON:
    if message := task["status"].get("message"):
        return dict(message)
    last = (task.get("history") or [{}])[-1]
    is_its_own = last.get("role") == "ROLE_AGENT" and state_of(task["status"]) is not TaskState.CANCELED
    return dict(last) if is_its_own else {}


def _with_earlier(message: JSON, earlier: Sequence[JSON]) -> JSON:
    """The final message after the messages in the stream that it does not repeat."""
    parts = sort_parts(message.get("parts", []))[0]
    own = {_as_text(message.get("messageId"))} - {""}
    pieces: list[JSON] = next((one["parts"] for one in earlier if one.get("messageId") in own), [])
    parts = max(parts, pieces, key=_text_length)  # the final one may be the last piece alone
    kept = [
        one
        for one in earlier
        if one.get("messageId") not in own and not (parts and _text_continues(one["parts"], parts))
    ]
    if not kept and not pieces:
        return message
    metadata = {name: value for one in (*kept, message) for name, value in (one.get("metadata") or {}).items()}
    return {**message, "parts": [part for one in kept for part in one["parts"]] + parts, "metadata": metadata}


def _text_length(parts: Sequence[JSON]) -> int:
    return sum(len(part.get("text") or "") for part in parts)


def _text_continues(earlier: Sequence[JSON], parts: Sequence[JSON]) -> bool:
    """Do these parts begin with the earlier ones?"""
    heard = HeardArtifact()
    heard.add(earlier)
    return heard.rest_of(parts) is not None


def _delivered_text(task: JSON) -> str:
    artifacts = task.get("artifacts") or []
    parts = artifacts[0].get("parts", []) if len(artifacts) == 1 else []
    text = "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    is_all = all("text" in part and "filename" not in part for part in parts)
    return text if is_all and len(text) <= LONGEST_REPEATED_TEXT else ""


def _message_parts(message: JSON) -> list[Part]:
    return sort_parts(message.get("parts", []))[0]  # type: ignore[return-value]


def _message_metadata(message: JSON) -> JSON:
    return dict(message.get("metadata") or {})


def _slot(message: JSON, hints: JSON, name: str = "input") -> JSON:
    """The slot in the metadata of the status, as Parley writes it, or of its message."""
    for place in (hints.get("slot"), (message.get("metadata") or {}).get("slot"), message.get("metadata")):
        schema: Any = place.get("schema") if isinstance(place, dict) else None
        if isinstance(place, dict) and isinstance(schema, dict):
            own = place.get("name")
            return {"name": own[:LONGEST_SLOT] if isinstance(own, str) and own else name, "schema": schema}
    return {"name": name}
