"""Runs agents without a platform: in tests, and in `agentkit serve`.

run = await testing.run(Weather, "Will it rain in Rome?")
assert run.outcome == Completed("No.")
"""

import asyncio
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Any
from uuid import uuid4

from agentkit.clients import CallClient, Client
from agentkit.content.emissions import Chunk, Emission, Progress, SkillChosen, Token
from agentkit.content.inbox import Mailbox as Mailbox
from agentkit.content.memories import UserMemory
from agentkit.content.messages import (
    Artifact,
    Message,
    Part,
    ReceivedArtifact,
    data_part,
    guessed_media_type,
    raw_part,
    text_part,
)
from agentkit.content.passages import Passage, Search
from agentkit.content.projects import Project
from agentkit.context import Call, CallsWait, ChildResult, Emit, Suspended, TaskContext, bookmarks, turn_key
from agentkit.effects import RememberedEffects as RememberedEffects
from agentkit.errors import AgentFailure
from agentkit.handlers import as_handler
from agentkit.llm import approvals
from agentkit.outcomes import AuthRequired, Completed, Credential, InputRequired, Lend, Outcome, PaymentRequired
from agentkit.runner import drive, select_response_type
from agentkit.selecting import ExistingTask, ResponseType
from agentkit.slots import Slot, stored_slot
from agentkit.tools import DeclaredApprovals
from agentkit.turns import ReferencedTask, Session

Given = str | Credential
"""A credential, or the text of a bearer token."""

MAX_DEPTH = 8
"""How deep agents may call each other."""

Agents = Mapping[str, object]
"""Other agents by their slugs: anything that `as_handler` takes."""

Files = Mapping[str, bytes]
"""File names and what the files hold; media types are guessed."""


@dataclass
class Recorder:
    """An `emit` that keeps the emissions, and passes them on to `also`. The first one sets `heard`."""

    emissions: list[Emission] = field(default_factory=list)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    also: Emit | None = None

    async def emit(self, emission: Emission) -> None:
        self.emissions.append(emission)
        self.heard.set()
        if self.also is not None:
            await self.also(emission)

    @property
    def text(self) -> str:
        """The tokens, joined."""
        return "".join(emission.text for emission in self.emissions if isinstance(emission, Token))

    @property
    def progress(self) -> list[str]:
        return [emission.text for emission in self.emissions if isinstance(emission, Progress)]

    @property
    def chunks(self) -> list[Chunk]:
        return [emission for emission in self.emissions if isinstance(emission, Chunk)]


@dataclass(frozen=True)
class Run:
    """The result of one turn: `outcome`, `said`, `text`, `memory`, `delivered`, `skill`, `recorder`."""

    task: TaskContext
    outcome: Outcome
    recorder: Recorder
    handler: object = field(repr=False)
    agents: Agents = field(repr=False)
    is_question_of_child: bool = False

    @property
    def emissions(self) -> list[Emission]:
        return self.recorder.emissions

    @property
    def text(self) -> str:
        """The tokens, joined."""
        return self.recorder.text

    @property
    def said(self) -> str:
        """The text of the outcome's message."""
        return "\n".join(part["text"] for part in self.outcome.parts if "text" in part)

    @property
    def skill(self) -> str | None:
        """The turn's skill."""
        chosen = [emission.skill for emission in self.emissions if isinstance(emission, SkillChosen)]
        return chosen[-1] if chosen else self.task.skill

    @property
    def memory(self) -> dict[str, Any]:
        return self.task.memory

    @property
    def artifacts(self) -> list[Artifact]:
        """All artifacts: the streamed ones, assembled, and the outcome's."""
        streamed: dict[str, Artifact] = {}
        for chunk in self.recorder.chunks:
            before = streamed[chunk.artifact_id].parts if chunk.append else ()
            parts = [*before, *chunk.parts]
            streamed[chunk.artifact_id] = Artifact(
                parts, chunk.name, chunk.description, chunk.artifact_id, chunk.metadata
            )
        returned = self.outcome.artifacts if isinstance(self.outcome, Completed) else ()
        return [*streamed.values(), *returned]

    @property
    def delivered(self) -> list[ReceivedArtifact]:
        """The artifacts as another task receives them, with `text`, `data` and `files`."""
        return [ReceivedArtifact.from_wire(artifact.wire) for artifact in self.artifacts]

    def as_reference(self, *messages: Message) -> ReferencedTask:
        """This task as a finished one that another run refines; `messages` are its earlier turns'."""
        return ReferencedTask(self.task.task_id, "completed", [*messages, self.task.message], self.delivered)

    async def answer(
        self,
        message: str | dict[str, Any] | Message | None = None,
        *,
        files: Files | None = None,
        credentials: Mapping[str, Given] | None = None,
        payment: Mapping[str, Any] | None = None,
        project: Project | EllipsisType | None = ...,
        user_memory: UserMemory | EllipsisType | None = ...,
        passages: Sequence[Passage] | None = None,
        emit: Emit | None = None,
        inbox: Mailbox | Sequence[str | Message] = (),
        stop_after_step: asyncio.Event | None = None,
    ) -> "Run":
        """The next turn, with the answer to this turn's question. Without a message, the credential has arrived.

        The turn gets copies of the memories, so you can answer one run in several ways.

        Args:
            message: a text, the values of a form (a dict), or a message (also A2A's JSON, a dict with `parts`). For
                a form of one field, the text may be its value.
            files: the answer's files: names and contents.
            credentials: what `task.credential` returns, by service.
            payment: the receipt, `task.payment`, if this turn asked for a payment.
            project: the project of the conversation now; by default that of this turn.
            user_memory: what the agent may know about the person now; by default as in this turn.
            passages: what `task.search` finds now; by default as in this turn.
            emit: also receives the emissions, as they come.
            inbox: messages that arrive while the turn runs.
            stop_after_step: set it to ask the turn to stop.

        Raises:
            ValueError: this turn asked nothing, or a called agent asked.
        """
        question = self.outcome
        if not isinstance(question, InputRequired | AuthRequired):
            raise ValueError("This run asked nothing that could be answered.")
        if self.is_question_of_child:
            raise ValueError("An agent that was called asked this: answer it in a run of its own.")
        asked = Message.from_wire({"messageId": str(uuid4()), "role": "ROLE_AGENT", "parts": question.parts})
        arrives = arriving(inbox, stop_after_step)
        fields: dict[str, Any] = {"task_id": self.task.task_id, "slot": question.slot, "asked": _asked(question)}
        fields |= arrives
        fields |= {"context_id": self.task.context_id, "skill": self.skill, "emit": emit}
        fields |= {"references": self.task.references, "memory": deepcopy(self.memory), "effects": self.task.effects}
        beside = {
            "project": self.task.project if project is ... else project,
            "user_memory": self.task.user_memory if user_memory is ... else user_memory,
        }
        fields |= beside
        fields["find"] = self.task.find if passages is None else finder_of(passages)
        if isinstance(question, InputRequired) and question.repeats:
            given = message if isinstance(message, Message) else user_message(message or "")
            if isinstance(question, CallClient):
                client = Client.of(given, _asked(question), self.task.client)
                kept = {"approvals": self.task.approvals, "client": client}
                return await self._repeated(**kept, emit=emit, **arrives, **beside)
            return await self._decided(question, given, emit=emit, **arrives, **beside)
        if isinstance(question, PaymentRequired):
            fields["asked"] |= {"payment": {"receipt": dict(payment or {})}}
        session = Session(deepcopy(self.task.session.memory), self.task.session.options)
        fields |= {"session": session, "lend": lender_of(credentials or {})}
        if message is None:
            fields |= {"history": self.task.history, "resumed": True}
            return await _turn(self.handler, self.task.message, self.agents, **fields)
        fields["history"] = [*self.task.history, self.task.message, asked]
        said = message if isinstance(message, Message) else user_message(message, files)
        return await _turn(self.handler, said, self.agents, **fields)

    async def _decided(self, question: InputRequired, answer: Message, **fields: Any) -> "Run":
        """After a person's answer about a tool call: the next question, or the same turn with the decisions."""
        calls, _ = approvals.decide(question.calls, approvals.answer_in(answer), str(uuid4()), "somebody", "")
        if any("approved" not in one for one in calls):
            return replace(self, outcome=approvals.question(calls))
        decided = DeclaredApprovals(approvals.decided(calls))
        return await self._repeated(approvals=decided, client=self.task.client, **fields)

    async def _repeated(self, **answered: Any) -> "Run":
        fields: dict[str, Any] = {name: getattr(self.task, name) for name in REPEATED} | answered
        fields |= {"memory": deepcopy(bookmarks(self.memory))}
        return await _turn(self.handler, self.task.message, self.agents, **fields)


REPEATED = (
    "attempt",
    "task_id",
    "context_id",
    "slot",
    "asked",
    "skill",
    "history",
    "references",
    "session",
    "lend",
    "find",
    "resumed",
    "effects",
)


def _asked(question: InputRequired | AuthRequired) -> dict[str, Any]:
    kept = {"name": question.slot, "schema": question.schema, "value": question.value}
    return {key: value for key, value in kept.items() if value is not None}


def user_message(message: str | dict[str, Any], files: Files | None = None) -> Message:
    """A person's message. A dict with `parts` is A2A's JSON and is used unchanged, any other dict is data."""
    if isinstance(message, dict) and "parts" in message:
        return Message.from_wire(message)
    parts: list[Part] = [data_part(message) if isinstance(message, dict) else text_part(message)] if message else []
    parts += [raw_part(content, name, guessed_media_type(name)) for name, content in (files or {}).items()]
    return Message.from_wire({"messageId": str(uuid4()), "role": "ROLE_USER", "parts": parts})


def task_for(message: Message, recorder: Recorder, **fields: Any) -> TaskContext:
    """A task's context for a message; `fields` are further attributes of `Turn`."""
    fields.setdefault("task_id", str(message.wire.get("taskId") or uuid4()))
    fields.setdefault("context_id", str(message.wire.get("contextId") or "testing"))
    return TaskContext(message=message, emit=recorder.emit, **fields)


def lender_of(credentials: Mapping[str, Given]) -> Lend:
    async def lend(service: str) -> Credential | None:
        given = credentials.get(service)
        return Credential(service, "bearer", given) if isinstance(given, str) else given

    return lend


def finder_of(passages: Sequence[Passage]) -> Search:
    async def find(query: str, limit: int) -> list[Passage]:
        return list(passages[:limit])

    return find


async def response_type(
    handler: object, message: str | dict[str, Any] | Message, task: ExistingTask | None = None
) -> ResponseType:
    """How a handler (anything that `as_handler` accepts) answers a message; `task` is the conversation's newest.

    Raises:
        HandlerError: the choice is invalid. The selector's exceptions pass through.
    """
    said = message if isinstance(message, Message) else user_message(message)
    return await select_response_type(as_handler(handler), said, task)


async def run(
    handler: object,
    message: str | dict[str, Any] | Message,
    *,
    files: Files | None = None,
    slot: Slot | None = None,
    resumed: bool = False,
    skill: str | None = None,
    memory: dict[str, Any] | None = None,
    session: dict[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    history: Sequence[Message] = (),
    references: Sequence[ReferencedTask] = (),
    credentials: Mapping[str, Given] | None = None,
    agents: Agents | None = None,
    effects: RememberedEffects | None = None,
    project: Project | None = None,
    user_memory: UserMemory | None = None,
    passages: Sequence[Passage] = (),
    emit: Emit | None = None,
    inbox: Mailbox | Sequence[str | Message] = (),
    stop_after_step: asyncio.Event | None = None,
) -> Run:
    """Run one turn of a handler (anything that `as_handler` accepts).

    Answer a question with `await run.answer("…")`, or describe the turn by `slot` (as for `InputRequired`), `memory`,
    `skill` and `history`.

    Args:
        files: the message's files: names and contents.
        resumed: continue without a new message.
        memory: the task's memory.
        session: the conversation's memory; pass the same dict to all its runs.
        options: the conversation's settings.
        credentials: what `task.credential` returns, by service.
        agents: agents that the handler can call, by slug. They run here too. If one asks, its question is the outcome.
        project: the project of the conversation.
        user_memory: what the agent may know about the person who asks.
        passages: what `task.search` finds, whatever is asked.
        effects: the task's effects; give the same `testing.RememberedEffects()` to each attempt of a turn.
        emit: also receives the emissions, as they come.
        inbox: messages that arrive while the turn runs (`task.inbox`), or a mailbox that you `put` them into.
        stop_after_step: set it to ask the turn to stop after its step (`task.stop_requested`).
    """
    said = message if isinstance(message, Message) else user_message(message, files)
    asked = stored_slot(slot) if slot is not None else {}
    fields: dict[str, Any] = {"slot": asked.get("name"), "asked": asked, "skill": skill, "resumed": resumed}
    fields |= {"history": history, "references": references, "lend": lender_of(credentials or {})}
    fields["find"] = finder_of(passages)
    fields["memory"] = memory if memory is not None else {}
    fields["effects"] = effects or RememberedEffects()
    fields["project"], fields["user_memory"] = project, user_memory
    fields["session"] = Session(session if session is not None else {}, options or {})
    fields |= arriving(inbox, stop_after_step)
    return await _turn(handler, said, agents or {}, emit=emit, **fields)


def arriving(inbox: Mailbox | Sequence[str | Message], stop_after_step: asyncio.Event | None) -> dict[str, Any]:
    """The fields of a turn that say what arrives while it runs."""
    if not isinstance(inbox, Mailbox):
        inbox = Mailbox.of(one if isinstance(one, Message) else user_message(one) for one in inbox)
    return {"mail": inbox} | ({"stop_after_step": stop_after_step} if stop_after_step is not None else {})


async def _turn(
    handler: object, said: Message, agents: Agents, depth: int = 0, emit: Emit | None = None, **fields: Any
) -> Run:
    recorder = Recorder(also=emit)
    delegate = InProcess(agents, recorder.emit, depth) if agents else None
    fields.setdefault("attempt", 2 if _has_begun(said, fields.get("effects")) else 1)
    task = task_for(said, recorder, delegate=delegate, **fields)
    try:
        return Run(task, await drive(as_handler(handler), task), recorder, handler, agents)
    except Suspended as suspended:
        of_child = not isinstance(suspended, CallsWait)
        return Run(task, suspended.question, recorder, handler, agents, is_question_of_child=of_child)


def _has_begun(said: Message, effects: object) -> bool:
    """Has an earlier attempt of this turn made a step?"""
    claims = effects.claims if isinstance(effects, RememberedEffects) else {}
    return any(key.startswith(f"{turn_key(said)} ") for _, key in claims)


@dataclass(frozen=True)
class InProcess:
    """A host's `delegate` that calls agents in this process."""

    agents: Agents
    emit: Emit
    depth: int = 0

    async def __call__(self, call: Call) -> ChildResult:
        if call.agent not in self.agents:
            raise AgentFailure(f"There is no agent {call.agent!r} to be called.", "unknown_agent")
        if self.depth >= MAX_DEPTH:
            raise AgentFailure(
                f"Agents call each other {MAX_DEPTH} levels deep. Check whether they call each other in a circle.",
                "too_deep",
            )
        sent = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": call.parts, "metadata": call.metadata}
        child = await _turn(self.agents[call.agent], Message.from_wire(sent), self.agents, self.depth + 1)
        name = as_handler(self.agents[call.agent]).name
        for line in child.recorder.progress:
            await self.emit(Progress(f"{name}: {line}"))
        if isinstance(child.outcome, InputRequired | AuthRequired):
            raise Suspended(child.outcome, child.task.task_id)
        state = type(child.outcome).__name__.lower()
        delivered = [*child.as_reference().artifacts] if state == "completed" else []
        last: dict[str, Any] = {"name": name, "parts": child.outcome.parts, "metadata": child.outcome.metadata}
        return ChildResult(child.task.task_id, call.agent, state, child.said, delivered, **last)
