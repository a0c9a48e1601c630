"""The conversations and tasks of an agent that serves itself, in memory, as A2A 1.0 JSON.

A turn runs as in a test (`agentkit.testing`). What it says becomes events for who follows the task.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

from agentkit import testing
from agentkit.content.emissions import Chunk, Emission, Progress, Token, WholeAnswer
from agentkit.content.inbox import Mailbox
from agentkit.content.messages import Artifact, Message, Part, text_part
from agentkit.handlers import SkillHandler
from agentkit.outcomes import AuthRequired, Completed, Failed, InputRequired, Outcome, PaymentRequired, Rejected
from agentkit.selecting import ExistingTask
from agentkit.serving.state import Given, Ledger, of_conversation, of_task, run_of, sendable
from agentkit.serving.told import Told
from agentkit.turns import ReferencedTask, Session

MOST_CONVERSATIONS = 1000  # kept; the one that was used least recently goes first
MOST_TASKS = 100  # of a conversation
MOST_MESSAGES = 200  # of a conversation, which an agent receives
MOST_WAITING = 1000  # events that a follower has not read, before the agent waits for it
TOLD_SECONDS = 1.0  # that a step waits until its followers have read of it
SLOW_SECONDS = 5.0  # that the agent waits for a follower, before its stream ends

WORKING, COMPLETED, FAILED, CANCELED = (f"TASK_STATE_{name}" for name in ("WORKING", "COMPLETED", "FAILED", "CANCELED"))
SUBMITTED, ASKS, ASKS_FOR_AUTH, REJECTED = (
    f"TASK_STATE_{name}" for name in ("SUBMITTED", "INPUT_REQUIRED", "AUTH_REQUIRED", "REJECTED")
)
ENDED = frozenset({COMPLETED, FAILED, CANCELED, REJECTED})
WAITING = frozenset({ASKS, ASKS_FOR_AUTH})
STATES: Mapping[type[Any], str] = {
    Completed: COMPLETED,
    Failed: FAILED,
    Rejected: REJECTED,
    AuthRequired: ASKS_FOR_AUTH,
    InputRequired: ASKS,
}

type Json = dict[str, Any]

log = logging.getLogger("agentkit")


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def said_by_agent(parts: list[Part], metadata: Mapping[str, Any], **ids: str) -> Json:
    wire: Json = {"messageId": str(uuid4()), "role": "ROLE_AGENT", "parts": parts, **ids}
    return wire | ({"metadata": dict(metadata)} if metadata else {})


@dataclass(eq=False)
class ServedTask:
    """A task: `wire` is its A2A JSON. `run` is its newest turn, once that has ended."""

    wire: Json
    conversation: Conversation
    run: testing.Run | None = None
    work: asyncio.Task[None] | None = None
    followers: set[asyncio.Queue[Json | None]] = field(default_factory=set)
    answer: Json | None = None  # the artifact of the turn's tokens
    answer_id: str = ""
    ledger: Ledger = field(default_factory=Ledger)
    state_uri: str = ""  # under which the caller gets the state; "": it does not want it
    steering_uri: str = ""  # under which the caller hears which messages the turn has read
    mailbox: Mailbox = field(default_factory=Mailbox)
    stop_after_step: asyncio.Event = field(default_factory=asyncio.Event)
    read: list[str] = field(default_factory=list)  # the ids of messages that the turn has read

    def __post_init__(self) -> None:
        self.ledger.tell = self._tell_steps

    @property
    def id(self) -> str:
        return str(self.wire["id"])

    @property
    def state(self) -> str:
        return str(self.wire["status"]["state"])

    def follow(self, until: Container[str]) -> AsyncGenerator[Json]:
        """The task as it is now, then what happens, up to one of these states. A follower that does not read hears
        no more.
        """
        heard: asyncio.Queue[Json | None] = asyncio.Queue(MOST_WAITING)
        self.followers.add(heard)  # now, because the generator begins later
        return self._follow(heard, {"task": self.told()}, until, is_over=self.state in until)

    async def _follow(
        self, heard: asyncio.Queue[Json | None], event: Json | None, until: Container[str], *, is_over: bool
    ) -> AsyncGenerator[Json]:
        is_first = True
        try:
            while event is not None:
                yield event
                if not is_first:
                    heard.task_done()  # who asks for the next one has it
                is_first = False
                if is_over or event.get("statusUpdate", {}).get("status", {}).get("state") in until:
                    return
                event = await heard.get()
        finally:
            self.followers.discard(heard)

    @property
    def is_working(self) -> bool:
        return self.state not in ENDED | WAITING

    async def settled(self) -> None:
        """Wait until the task ends or asks."""
        if self.work is not None:
            await asyncio.wait({self.work})

    def shown(self, history: int | None = None, *, artifacts: bool = True) -> Json:
        """The task with its newest `history` messages (all: None)."""
        shown = {name: value for name, value in self.wire.items() if artifacts or name != "artifacts"}
        if "artifacts" in shown:
            shown["artifacts"] = [{**one, "parts": list(one["parts"])} for one in shown["artifacts"]]
        messages = shown.pop("history", [])
        if history != 0 and messages:
            shown["history"] = messages[-history:] if history else messages[:]
        return shown

    def told(self, history: int | None = None) -> Json:
        """`shown`, with the state for a caller that keeps it, and with what the turn has read."""
        metadata = self._state_metadata(self._kept) if self.state_uri else {}
        metadata |= {self.steering_uri: {"read": list(self.read)}} if self.steering_uri else {}
        return self.shown(history) | ({"metadata": metadata} if metadata else {})

    def begin(self, handler: SkillHandler, said: Json, beside: Told) -> None:
        """Take the turn of a message, which begins the task or answers its question."""
        message, conversation = Message({**said, **self._ids}), self.conversation
        self.mailbox, self.stop_after_step, self.read = Mailbox(on_read=self._note_read), asyncio.Event(), []
        arrives: Json = {"inbox": self.mailbox, "stop_after_step": self.stop_after_step}
        history = list(conversation.messages)
        self.remember({**said, **self._ids})
        if self.run is not None:
            memory = self.run.task.session.memory
            memory.clear()
            memory.update(deepcopy(conversation.memory))  # what other tasks of the conversation changed meanwhile
            turn: Callable[..., Awaitable[testing.Run]] = partial(self.run.answer, message)
        else:
            known: dict[str, Any] = {"history": history, "references": conversation.references(message)}
            known |= {"session": deepcopy(conversation.memory), "effects": self.ledger}
            turn = partial(testing.run, handler, message, **known)
        turn = partial(turn, project=beside.project, user_memory=beside.user_memory, emit=self.hear, **arrives)
        self.answer_id = f"answer-{said['messageId']}"
        self._change(WORKING)
        self.work = asyncio.get_running_loop().create_task(self._work(turn, deepcopy(conversation.memory)))

    def steer(self, said: Json, uri: str) -> None:
        """Put a message into the running turn's inbox. What it does not read is the caller's to send again."""
        self.steering_uri = uri
        self.mailbox.put(Message({**said, **self._ids}))

    def _note_read(self, messages: list[Message]) -> None:
        for message in messages:
            self.remember(dict(message.wire))
        ids = [message.id for message in messages]
        self.read += ids
        self._tell_status({}, {self.steering_uri: {"read": ids}})

    async def cancel(self) -> None:
        if self.work is not None and not self.work.done():
            self.work.cancel()
            await asyncio.wait({self.work})
        if self.state not in ENDED:
            self._change(CANCELED)

    async def _work(self, turn: Callable[[], Awaitable[testing.Run]], memory: Json) -> None:
        """`memory`: of the conversation, as the turn finds it."""
        try:
            self.run = await turn()
            self.conversation.keep(memory, self.run.task.session.memory)
            outcome: Outcome = self.run.outcome
        except asyncio.CancelledError:
            self._change(CANCELED)
            return
        except Exception as error:
            log.exception("The agent failed")
            outcome = Failed(f"The agent failed: its code raised {type(error).__name__}.", "agent_error")
            self._tell({"trace": {"error": f"{type(error).__name__}: {error}"}})
        self._end(outcome)

    def _end(self, outcome: Outcome) -> None:
        if isinstance(outcome, PaymentRequired):
            outcome = Failed("This server takes no payments.", "no_payments")
        said = outcome.parts
        if isinstance(outcome, Completed):
            said = said or ([text_part(self._answered())] if self._answered() else [])
            self._deliver(outcome)
        metadata = dict(outcome.message_metadata)
        if isinstance(outcome, InputRequired | AuthRequired):
            slot = {"name": outcome.slot, "schema": outcome.schema}
            metadata["slot"] = {name: value for name, value in slot.items() if value is not None}
        state = next(state for kind, state in STATES.items() if isinstance(outcome, kind))
        self._change(state, said_by_agent(said, metadata, **self._ids) if said else None)

    def _answered(self) -> str:
        return "".join(part["text"] for part in self.answer["parts"]) if self.answer else ""

    def _deliver(self, outcome: Completed) -> None:
        """The outcome's artifacts, and the end of the streamed answer."""
        artifacts = list(outcome.artifacts)
        if self.answer is not None:
            streamed = self._answered()
            artifacts = [one for one in artifacts if [part.get("text") for part in one.parts] != [streamed]]
            self._artifact({**self.answer, "parts": [text_part(streamed)]}, append=False, last=True)
            self.answer = None
        for artifact in artifacts:
            self._artifact(artifact.wire, append=False, last=True)

    async def hear(self, emission: Emission) -> None:
        """An `emit` of the turn."""
        match emission:
            case Progress(text):
                parts = list(emission.parts) or [text_part(text)]
                self._change(WORKING, said_by_agent(parts, emission.metadata, **self._ids))
            case Token(text) | WholeAnswer(text):
                goes_on = isinstance(emission, Token) and self.answer is not None
                # A turn that is repeated replaces its text.
                self.answer = self.answer or Artifact([], "answer", artifact_id=self.answer_id).wire
                self.answer = self._artifact({**self.answer, "parts": [text_part(text)]}, append=goes_on, last=False)
            case Chunk():
                labels = {"name": emission.name, "description": emission.description, "metadata": emission.metadata}
                wire: Json = {"artifactId": emission.artifact_id, "parts": list(emission.parts)}
                wire |= {name: value for name, value in labels.items() if value}
                self._artifact(wire, append=emission.append, last=emission.last)
            case _:
                self._tell({"trace": {"kind": type(emission).__name__, **vars(emission)}})
        await self._let_read()

    async def _let_read(self) -> None:
        """Let followers read. Those that do not are left behind."""
        await asyncio.sleep(0)
        until = asyncio.get_running_loop().time() + SLOW_SECONDS
        while slow := [one for one in self.followers if one.qsize() > MOST_WAITING // 2]:
            if asyncio.get_running_loop().time() > until:
                for one in slow:
                    self._leave_behind(one)
                return
            await asyncio.sleep(0.01)

    def _leave_behind(self, follower: asyncio.Queue[Json | None]) -> None:
        self.followers.discard(follower)
        if follower.full():
            follower.get_nowait()
        follower.put_nowait(None)

    def _artifact(self, wire: Json, *, append: bool, last: bool) -> Json:
        """Keep an artifact, or a piece of one, and tell of it; returns the artifact so far."""
        kept: list[Json] = self.wire.setdefault("artifacts", [])
        known = next((one for one in kept if one["artifactId"] == wire["artifactId"]), None)
        self._tell_artifact(wire, append=append and known is not None, last=last)
        if known is not None and append:
            known["parts"] += wire["parts"]
            return known
        made = {**wire, "parts": list(wire["parts"])}
        if known is None:
            kept.append(made)
        else:
            kept[kept.index(known)] = made
        return made

    def _tell_artifact(self, wire: Json, *, append: bool, last: bool) -> None:
        self._tell({"artifactUpdate": {**self._ids, "artifact": wire, "append": append, "lastChunk": last}})

    def _change(self, state: str, message: Json | None = None) -> None:
        self.wire["status"] = {"state": state, "timestamp": now()} | ({"message": message} if message else {})
        if message is not None and state != WORKING:
            self.remember(message)
        self._tell_status({} if self.is_working else self._kept)
        if not self.is_working:
            self.answer = None

    def _tell_status(self, changed: Json, metadata: Json | None = None) -> None:
        """`changed`: of the state, for a caller that keeps it."""
        told = (metadata or {}) | (self._state_metadata(changed) if changed and self.state_uri else {})
        update = {**self._ids, "status": self.wire["status"]} | ({"metadata": told} if told else {})
        self._tell({"statusUpdate": update})

    async def _tell_steps(self, changed: Json) -> None:
        """Returns once who follows has it, so that no end of the process takes it back."""
        if not self.state_uri or not self.is_working:
            return
        self._tell_status({"steps": changed})
        with suppress(TimeoutError):
            async with asyncio.timeout(TOLD_SECONDS):
                await asyncio.gather(*(one.join() for one in self.followers))

    def _state_metadata(self, changed: Json) -> Json:
        return {self.state_uri: sendable(changed)}

    @property
    def _kept(self) -> Json:
        """The state between turns, or in a turn what it did so far."""
        if self.is_working:
            return {"steps": self.ledger.wire}
        kept: Json = {"conversation": self.conversation.state, "task": None}
        if self.run is not None and self.state in WAITING:
            kept |= {"task": of_task(self.run), "steps": self.ledger.wire}
        return kept

    def restore(self, handler: SkillHandler, given: Given) -> None:
        """Go on from what another process kept. Raises ValueError."""
        self.ledger.read(given.steps)
        if given.task is not None and given.task != sendable(self._kept).get("task"):
            turn = {"task_id": self.id, "context_id": self.conversation.id, "effects": self.ledger}
            turn |= {"session": Session(deepcopy(self.conversation.memory)), "history": self.conversation.messages[:-2]}
            self.run = run_of(given.task, handler, **turn)

    def remember(self, message: Json) -> None:
        self.wire.setdefault("history", []).append(message)
        self.conversation.remember(Message(message))

    def _tell(self, event: Json) -> None:
        for follower in list(self.followers):
            if follower.full():
                self._leave_behind(follower)
            else:
                follower.put_nowait(event)

    @property
    def _ids(self) -> Json:
        return {"taskId": self.id, "contextId": self.wire["contextId"]}


@dataclass(eq=False)
class Conversation:
    """A contextId: its memory, its newest messages, its tasks by their ids, oldest first."""

    id: str
    memory: Json = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    tasks: OrderedDict[str, ServedTask] = field(default_factory=OrderedDict)

    @property
    def state(self) -> Json:
        return of_conversation(self.memory, self.messages)

    def restore(self, given: Json) -> None:
        """Take over what the caller kept. Raises ValueError."""
        if given == sendable({"state": self.state})["state"]:  # with the files, which a state does not have
            return
        memory, messages = given.get("memory", {}), given.get("messages", [])
        if not (isinstance(memory, dict) and isinstance(messages, list) and all(isinstance(m, dict) for m in messages)):
            raise ValueError("The conversation of the state has a memory (an object) and messages (a list).")
        self.memory, self.messages = memory, [Message(one) for one in messages][-MOST_MESSAGES:]

    @property
    def is_busy(self) -> bool:
        return any(task.is_working for task in self.tasks.values())

    @property
    def newest(self) -> ExistingTask | None:
        if not self.tasks:
            return None
        task = next(reversed(self.tasks.values()))
        return ExistingTask(task.id, task.state.removeprefix("TASK_STATE_").lower())

    def keep(self, before: Json, after: Json) -> None:
        """Take over what a turn changed of the memory."""
        self.memory |= {name: value for name, value in after.items() if name not in before or before[name] != value}
        for name in before.keys() - after.keys():
            self.memory.pop(name, None)

    def remember(self, *messages: Message) -> None:
        self.messages = [*self.messages, *messages][-MOST_MESSAGES:]

    def answer(self, message: Message, parts: list[Part], metadata: Json) -> Json:
        """The wire form of an answer without a task, which is remembered with its message."""
        said = said_by_agent(parts, metadata, contextId=self.id)
        self.remember(message, Message(said))
        return said

    def references(self, message: Message) -> list[ReferencedTask]:
        """The ended tasks of the conversation that the message refers to."""
        named = (self.tasks.get(one) for one in message.references)
        return [ReferencedTask.from_wire(one.wire) for one in named if one is not None and one.state in ENDED]


@dataclass
class Conversations:
    """All conversations. Old ones are forgotten."""

    by_id: OrderedDict[str, Conversation] = field(default_factory=OrderedDict)
    by_task: dict[str, ServedTask] = field(default_factory=dict)

    def named(self, context_id: str) -> Conversation:
        """The conversation of this contextId; "" for a new one."""
        name = context_id or str(uuid4())
        found = self.by_id.setdefault(name, Conversation(name))
        self.by_id.move_to_end(name)
        idle = (one for one in self.by_id.values() if one is not found and not one.is_busy)
        while len(self.by_id) > MOST_CONVERSATIONS and (oldest := next(idle, None)):
            del self.by_id[oldest.id]
            for task in oldest.tasks:
                del self.by_task[task]
            idle = (one for one in self.by_id.values() if one is not found and not one.is_busy)
        return found

    def new_task(self, conversation: Conversation, task_id: str = "") -> ServedTask:
        wire: Json = {
            "id": task_id or str(uuid4()),
            "contextId": conversation.id,
            "status": {"state": SUBMITTED, "timestamp": now()},
        }
        task = conversation.tasks[wire["id"]] = self.by_task[wire["id"]] = ServedTask(wire, conversation)
        idle = [one for one in conversation.tasks.values() if one is not task and not one.is_working]
        for old in idle[: max(0, len(conversation.tasks) - MOST_TASKS)]:
            self.forget(old)
        return task

    def forget(self, task: ServedTask) -> None:
        del task.conversation.tasks[task.id], self.by_task[task.id]
