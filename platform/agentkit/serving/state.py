"""The state of a conversation, which the caller keeps: an extension of A2A (`docs/extensions/state-v1.md`).

A process that does not know a task or a conversation goes on from the state that comes with the message.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentkit import testing
from agentkit.content.messages import Message
from agentkit.effects import Claim, RememberedEffects
from agentkit.handlers import SkillHandler
from agentkit.outcomes import AuthRequired, InputRequired
from agentkit.tools import DeclaredApprovals

ENDING = "/ext/state/v1"  # of the extension's URI, whatever comes before it
URI = f"https://agentkit.invalid{ENDING}"
MOST_BYTES = 1024 * 1024  # of a part of a state
MOST_TAKEN = 4 * MOST_BYTES  # of all parts
MOST_MESSAGES_BYTES = 256 * 1024  # of a conversation's messages in it
MOST_FILE = 64 * 1024  # of a file in a message, as base64
QUESTION = ("slot", "schema", "metadata", "value")  # what a question has besides its words

type Json = dict[str, Any]

log = logging.getLogger("agentkit")


def extension(handler: SkillHandler) -> Json:
    """Its entry in the card."""
    described = "The caller keeps the state of conversations and sends it with each message."
    return {"uri": URI, "description": described, "params": {"retrySafe": handler.retry_safe, "wholeStreams": True}}


@dataclass(frozen=True)
class Given:
    """What a message says of the state.

    Attributes:
        uri: the extension's URI, as the message writes it; "": it does not use the extension.
        conversation, task: None: the message has none.
        steps: what the turn did already, by keys of the ledger's own.
        is_state: has the message a state, even an empty one?
    """

    uri: str = ""
    conversation: Json | None = None
    task: Json | None = None
    steps: Json = field(default_factory=dict)
    is_state: bool = False


def take(message: Json) -> Given:
    """Take the state out of a message. Raises ValueError with a sentence."""
    uri = next((one for one in message.get("extensions") or () if str(one).endswith(ENDING)), "")
    metadata = {name: value for name, value in message.get("metadata", {}).items() if not name.endswith(ENDING)}
    stated = message.get("metadata", {}).get(uri)
    if "metadata" in message:
        message["metadata"] = metadata
    if not uri or stated is None:
        return Given(uri)
    if not isinstance(stated, dict):
        raise ValueError(f"message.metadata[{uri!r}] must be an object.")
    parts = {name: stated.get(name) for name in ("conversation", "task", "steps")}
    if not all(isinstance(part, dict | None) for part in parts.values()):
        raise ValueError(f"conversation, task and steps of message.metadata[{uri!r}] must be objects.")
    if len(json.dumps(stated, ensure_ascii=False).encode()) > MOST_TAKEN:
        raise ValueError("A state has at most 1 MiB of JSON.")
    return Given(uri, parts["conversation"], parts["task"], parts["steps"] or {}, is_state=True)


@dataclass
class Ledger(RememberedEffects):
    """A task's steps and effects. `tell` gets each change before the turn goes on: an entry, or None for one that is
    taken back.
    """

    tell: Callable[[Json], Awaitable[None]] | None = None

    async def claim(self, name: str, key: str, instead_of: str | None = None) -> Claim:
        held = await super().claim(name, key, instead_of)
        if held.state == "new":
            await self._tell_of(name, key)
        return held

    async def settle(self, claim: Claim, result: Any) -> Any:
        try:
            kept = json.loads(json.dumps(result))
        except TypeError as error:
            raise ValueError(f"The result is no JSON: {error}") from None
        await super().settle(claim, kept)
        for (name, key), one in list(self.claims.items()):
            if one.id == claim.id:
                await self._tell_of(name, key)
        return kept

    async def release(self, claim: Claim, why: str) -> None:
        gone = [at for at, one in self.claims.items() if one.id == claim.id]
        await super().release(claim, why)
        if self.tell is not None:
            await self.tell({_named(*at): None for at in gone})

    async def _tell_of(self, name: str, key: str) -> None:
        if self.tell is not None:
            await self.tell({_named(name, key): _entry(name, key, self.claims[name, key])})

    @property
    def wire(self) -> Json:
        return {_named(*at): _entry(*at, one) for at, one in self.claims.items()}

    def read(self, steps: Mapping[str, Any]) -> None:
        """Add what another process did. Entries that cannot be read are left out."""
        for at, one in steps.items():
            if isinstance(one, dict) and isinstance(one.get("name"), str) and isinstance(one.get("key"), str):
                known = Claim(f"earlier:{at}", one["name"], "done" if "result" in one else "unknown", one.get("result"))
                self.claims.setdefault((one["name"], one["key"]), known)


def _named(name: str, key: str) -> str:
    return f"{name}: {key}"


def _entry(name: str, key: str, claim: Claim) -> Json:
    """Without a result: it began."""
    return {"name": name, "key": key} | ({"result": claim.result} if claim.state == "done" else {})


def of_task(run: testing.Run) -> Json:
    """What the next turn needs of this one, which asked something."""
    task, question = run.task, run.outcome
    assert isinstance(question, InputRequired | AuthRequired)
    asked: Json = {"parts": question.parts, "isForAuth": isinstance(question, AuthRequired)}
    asked |= {name: getattr(question, name) for name in QUESTION if getattr(question, name)}
    if isinstance(question, InputRequired) and question.repeats:
        asked |= {"calls": list(question.calls), "repeats": True}
    kept: Json = {"memory": task.memory, "message": _without_large_files(task.message.wire), "question": asked}
    turn = {"skill": run.skill, "slot": task.slot, "asked": dict(task.asked), "resumed": task.resumed}
    turn["decided"] = dict(task.approvals.decided)
    return kept | {name: value for name, value in turn.items() if value}


def run_of(task: Json, handler: SkillHandler, **turn: Any) -> testing.Run | None:
    """The turn that asked; None if the task waits for nothing. `turn` are fields of the turn.

    Raises ValueError for what is no such state.
    """
    if task.get("question") is None:
        return None
    try:
        asked = dict(task["question"])
        words = asked.pop("parts") or None
        if asked.pop("isForAuth", False):
            question: InputRequired | AuthRequired = AuthRequired(words, **asked)
        else:
            question = InputRequired(words, **asked)
        fields = {name: task[name] for name in ("skill", "slot", "asked", "resumed") if name in task}
        recorder = testing.Recorder()
        context = testing.task_for(
            Message(task["message"]),
            recorder,
            memory=dict(task["memory"]),
            approvals=DeclaredApprovals(task.get("decided", {})),
            **fields,
            **turn,
        )
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"The task of the state cannot be read: {error!r}.") from None
    return testing.Run(context, question, recorder, handler, {})


def of_conversation(memory: Json, messages: list[Message]) -> Json:
    """Its memory, and its newest messages without large files."""
    kept: list[Json] = []
    size = 0
    for message in reversed(messages):
        wire = _without_large_files(message.wire)
        size += len(json.dumps(wire).encode())
        if size > MOST_MESSAGES_BYTES:
            break
        kept.insert(0, wire)
    return {"memory": memory, "messages": kept}


def _without_large_files(message: Mapping[str, Any]) -> Json:
    return {**message, "parts": [part for part in message.get("parts", ()) if len(part.get("raw", "")) <= MOST_FILE]}


def sendable(changed: Json) -> Json:
    """The state as JSON. A part that is no JSON, or too large, becomes null: the caller keeps none."""
    made: Json = {}
    for name, value in changed.items():
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            log.warning("The %s is not kept by the caller, because its state is no JSON: %s", name, error)
            text = "null"
        if len(text.encode()) > MOST_BYTES:
            log.warning("The %s is not kept by the caller: its state is larger than 1 MiB", name)
            text = "null"
        made[name] = json.loads(text)
    return made
