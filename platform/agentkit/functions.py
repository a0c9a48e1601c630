"""Plain functions as agents: what they are given, by their first parameter, and how `@agent` describes them."""

import inspect
import typing
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

from agentkit.context import SyncTaskContext, TaskContext
from agentkit.errors import HandlerError
from agentkit.handlers import SkillHandler
from agentkit.messages import Message
from agentkit.selecting import Choice, Selector
from agentkit.skills import Skill, first_paragraph
from agentkit.threads import Thread


class Traits(TypedDict, total=False):
    """What `@agent` can say of a function: the attributes of a `SkillHandler`."""

    name: str
    description: str
    version: str
    skills: Sequence[Skill]
    input_modes: Sequence[str]
    output_modes: Sequence[str]
    response_type: Choice | Selector
    retry_safe: bool
    time_limit: float
    attempts: int


def agent[F: Callable[..., Any]](**traits: Unpack[Traits]) -> Callable[[F], F]:
    """Describes a plain function as an agent: `@agent(name="Shout", skills=[…])`."""
    if unknown := traits.keys() - Traits.__annotations__.keys():
        raise HandlerError(f"@agent does not know {', '.join(sorted(unknown))}.")

    def describe(function: F) -> F:
        function.__agent_traits__ = traits  # type: ignore[attr-defined]
        return function

    return describe


def function_handler(function: Callable[..., Any]) -> SkillHandler:
    """A handler from a function of any kind: `def` or `async def`, generator or not.

    Its one parameter says what it is given: the text, unless it is called `message`, `task`, `history` or `thread`, or
    is annotated with `Message`, `TaskContext`, `SyncTaskContext`, `Thread` or `list[Message]`. The conversation
    (a `Thread`, or the list) has the newest message last.

    Raises:
        HandlerError: it cannot be called with one argument.
    """
    is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    return _AsyncFunctionHandler(function) if is_async else _FunctionHandler(function)


class _FunctionHandler(SkillHandler):
    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.argument = _first_argument(function)
        self.name = getattr(function, "__name__", "agent").replace("_", " ").capitalize()
        vars(self).update(getattr(function, "__agent_traits__", {}))
        self.description = self.description or first_paragraph(function)

    def on_request(self, task: SyncTaskContext) -> Any:
        return self.function(self.argument(task))


class _AsyncFunctionHandler(_FunctionHandler):
    async def on_request(self, task: TaskContext) -> Any:  # type: ignore[override]
        result = self.function(self.argument(task))
        return await result if inspect.isawaitable(result) else result


def _first_argument(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """What to make of the task for what the function wants."""
    name = getattr(function, "__name__", repr(function))
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise HandlerError(f"{name}() must take a parameter, for the text, the message, the history or the task.")
    first, *others = parameters
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if any(other.default is other.empty and other.kind not in optional for other in others):
        raise HandlerError(f"{name}() must do with one parameter; give the others default values.")
    wanted = _hint(function, first)
    if wanted in BY_HINT:
        return BY_HINT[wanted]
    if typing.get_origin(wanted) in (list, Sequence) and typing.get_args(wanted) == (Message,):
        return lambda task: list(Thread.of(task))
    return BY_NAME.get(first.name, _text)


def _text(task: Any) -> str:
    text: str = task.message.text
    return text


BY_NAME: dict[str, Callable[[Any], Any]] = {
    "task": lambda task: task,
    "message": lambda task: task.message,
    "history": Thread.of,
    "thread": Thread.of,
}
BY_HINT: dict[Any, Callable[[Any], Any]] = {
    TaskContext: BY_NAME["task"],
    SyncTaskContext: BY_NAME["task"],
    Message: BY_NAME["message"],
    Thread: Thread.of,
    str: _text,
}


def _hint(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    try:
        return typing.get_type_hints(function).get(parameter.name)
    except Exception:
        # Annotations that cannot be resolved here, such as names imported for type checkers only.
        written = str(parameter.annotation).replace("agentkit.", "")
        known = {kind.__name__: kind for kind in BY_HINT}
        return list[Message] if written in ("list[Message]", "Sequence[Message]") else known.get(written)
