"""Asking a handler which skill takes a task, and with which of its methods."""

import asyncio
import contextvars
import dataclasses
import inspect
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from agentkit import slots
from agentkit.context import TaskContext
from agentkit.errors import HandlerError, InvalidAnswer
from agentkit.handlers import SkillHandler
from agentkit.messages import Message
from agentkit.negotiation import SKILL_ID, Clarify, Decision, Reject, Start, is_async
from agentkit.outcomes import InputRequired, Rejected

SKILL_SLOT = "which-skill"
"""The slot of the question which skill is wanted, where a task asks it."""


def chooses(handler: SkillHandler, message: Message) -> bool:
    """Is there anything to be decided about a message that begins a task?"""
    is_own = type(handler).negotiate is not SkillHandler.negotiate
    return is_own or len(handler.skills) > 1 or (bool(handler.skills) and SKILL_ID in message.metadata)


async def decide(handler: SkillHandler, message: Message, *, executor: Executor | None = None) -> Decision:
    """What the handler's `negotiate` says. What is not async runs in a thread, of `executor` if given.

    Raises:
        InvalidAnswer: it says nothing that can be followed. What it raises passes through.
    """
    if decides_in_thread(handler):
        call = contextvars.copy_context().run
        work = asyncio.get_running_loop().run_in_executor(executor, call, handler.negotiate, message)
        decision: Any = await work
    else:
        decision = handler.negotiate(message)
    if inspect.isawaitable(decision):
        decision = await decision
    if not isinstance(decision, Decision):
        raise InvalidAnswer(f"negotiate gives Start, Clarify or Reject; this one gave {type(decision).__name__}.")
    known = [one.id for one in handler.skills]
    if isinstance(decision, Start) and decision.skill is not None and decision.skill not in known:
        named = ", ".join(known) or "none"
        raise InvalidAnswer(f"negotiate started the skill {decision.skill!r}; {handler.name} has {named}.")
    return decision


def decides_in_thread(handler: SkillHandler) -> bool:
    if type(handler).negotiate is not SkillHandler.negotiate:
        return not is_async(handler.negotiate)
    return len(handler.skills) > 1 and handler.choose_skill is not None and not is_async(handler.choose_skill)


async def begin(
    handler: SkillHandler, task: TaskContext, executor: Executor | None
) -> TaskContext | InputRequired | Rejected:
    """The task with its skill, where that is not known yet; or the question, or refusal, that the turn ends with."""
    if task.skill is not None:
        return task
    known = [one.id for one in handler.skills]
    if task.slot == SKILL_SLOT and (named := _named(task.message)) in known:
        return dataclasses.replace(_before_the_question(task), skill=named)
    if task.slot not in (None, SKILL_SLOT) or _goes_on(task):
        return dataclasses.replace(task, skill=known[0]) if len(known) == 1 else task
    match await decide(handler, task.message, executor=executor):
        case Clarify(question):
            return InputRequired(question, SKILL_SLOT, {"type": "string", "enum": known} if known else None)
        case Reject(reason):
            return Rejected(reason)
        case Start(skill):
            return dataclasses.replace(task, skill=skill, slot=None, asked={})


def method_for(handler: SkillHandler, skill: str | None, *, answers_slot: bool) -> Callable[..., Any]:
    """The handler's method that takes a turn."""
    # The inherited on_input_received calls on_request, but is no coroutine function where on_request is one.
    if answers_slot and type(handler).on_input_received is not SkillHandler.on_input_received:
        return handler.on_input_received
    name = handler.skill_methods.get(skill or "", "on_request")
    method: Callable[..., Any] = getattr(handler, name)
    return method


def slot_for(handler: SkillHandler, task: TaskContext) -> tuple[Any, ...]:
    """What `on_input_received` is given besides the task: the slot as its annotation says, if it takes one.

    Raises:
        HandlerError: the task asked for something else.
        slots.NotAnswered: the answer does not fit.
    """
    if not takes_slot(handler):
        return ()
    wanted = slots.wanted_by(handler.on_input_received)
    try:
        return (task.slot_as(wanted),)
    except LookupError as error:
        raise HandlerError(f"{type(handler).__name__}.on_input_received: {error}") from None


def takes_slot(handler: SkillHandler) -> bool:
    """Does its own `on_input_received` take the slot besides the task?"""
    if type(handler).on_input_received is SkillHandler.on_input_received:
        return False
    try:
        inspect.signature(handler.on_input_received).bind("task", "slot")
    except TypeError:
        return False
    return True


def _named(message: Message) -> str:
    """The skill that an answer names, by itself."""
    chosen = [value[SKILL_SLOT] for value in message.data if isinstance(value, dict) and SKILL_SLOT in value]
    return str(chosen[0] if chosen else message.text).strip()


def _before_the_question(task: TaskContext) -> TaskContext:
    """The turn as it was when the skill was not known: an answer that only names it is no request of its own."""
    earlier = [at for at, one in enumerate(task.history) if one.role == "user"]
    if not earlier:
        return dataclasses.replace(task, slot=None, asked={})
    unclear = earlier[-1]
    return dataclasses.replace(
        task, slot=None, asked={}, message=task.history[unclear], history=tuple(task.history[:unclear])
    )


def _goes_on(task: TaskContext) -> bool:
    """Did earlier turns of the task come to pass without a skill?"""
    return task.slot is None and any(one.wire.get("taskId") == task.task_id for one in task.history)
