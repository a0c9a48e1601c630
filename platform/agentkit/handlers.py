"""Agents as authors write them: a class with a few methods, or just a function."""

import importlib
import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypedDict, Unpack

from agentkit.context import SyncTaskContext, TaskContext
from agentkit.messages import Message


class HandlerError(Exception):
    """Something is wrong with an agent's code; the text says what to do."""


class ResponseType(Enum):
    """How a message is answered: by work that can be followed, or at once by a message."""

    TASK = "task"
    MESSAGE = "message"


@dataclass(frozen=True)
class Skill:
    """Something that the agent can do, as its card tells others (A2A 1.0 §4.4.5)."""

    id: str
    name: str
    description: str
    tags: Sequence[str]
    examples: Sequence[str] = ()
    input_modes: Sequence[str] = ()
    output_modes: Sequence[str] = ()

    @property
    def wire(self) -> dict[str, Any]:
        lists = {"examples": self.examples, "inputModes": self.input_modes, "outputModes": self.output_modes}
        filled = {key: list(value) for key, value in lists.items() if value}
        return {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "tags": list(self.tags),
            **filled,
        }


class SkillHandler:
    """An agent. Subclass it, describe it, and write `on_request`, as `def` or `async def`.

    A `def` runs in a thread with a `SyncTaskContext`, an `async def` on the event loop with a `TaskContext`. Both may
    be generators. One instance serves all tasks at once: what belongs to a task goes into `task.memory`.

    Attributes:
        input_modes, output_modes: media types; `*/*` and `text/*` are allowed.
        response_type: how messages are answered, unless `select_response_type` says otherwise.
        retry_safe: may a turn that a crash cut off be executed again?
        time_limit: seconds that a turn may take.
        attempts: how often a turn is tried at most.
    """

    name: str = ""
    description: str = ""
    version: str = "1.0.0"
    skills: Sequence[Skill] = ()
    input_modes: Sequence[str] = ("text/plain",)
    output_modes: Sequence[str] = ("text/plain",)
    response_type: ResponseType = ResponseType.TASK
    retry_safe: bool = False
    time_limit: float = 600.0
    attempts: int = 3

    def select_response_type(self, message: Message) -> ResponseType:
        """Decides for each message; must be quick."""
        return self.response_type

    def on_request(self, task: Any) -> Any:
        """Takes a turn. May return whatever `as_outcome` understands."""
        raise NotImplementedError(f"{type(self).__name__} must define on_request.")

    def on_input_received(self, task: Any) -> Any:
        """Takes the turn that answers the question `task.slot`."""
        return self.on_request(task)

    def ailment(self) -> str:
        """Why the agent cannot work at the moment, as a sentence for operators; "" where it can.

        The host asks from time to time; it must be quick. A missing model or tool is such a reason.
        """
        return ""

    def on_cancel(self, task: Any) -> Any:
        """Cleans up after a stop, within five seconds. It can no longer say anything."""


class Traits(TypedDict, total=False):
    """What `@agent` can say of a function: the attributes of a `SkillHandler`."""

    name: str
    description: str
    version: str
    skills: Sequence[Skill]
    input_modes: Sequence[str]
    output_modes: Sequence[str]
    response_type: ResponseType
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


class _FunctionHandler(SkillHandler):
    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.argument = _first_argument(function)
        self.name = getattr(function, "__name__", "agent").replace("_", " ").capitalize()
        vars(self).update(getattr(function, "__agent_traits__", {}))
        self.description = self.description or _first_paragraph(function)

    def on_request(self, task: SyncTaskContext) -> Any:
        return self.function(self.argument(task))


class _AsyncFunctionHandler(_FunctionHandler):
    async def on_request(self, task: TaskContext) -> Any:  # type: ignore[override]
        result = self.function(self.argument(task))
        return await result if inspect.isawaitable(result) else result


def as_handler(obj: object) -> SkillHandler:
    """A handler from an instance or a subclass of `SkillHandler`, or from a plain function of any kind.

    Raises:
        HandlerError: it is none of these, or cannot be used as one.
    """
    if isinstance(obj, type) and issubclass(obj, SkillHandler):
        obj = _instance(obj)
    if isinstance(obj, SkillHandler):
        if type(obj).on_request is SkillHandler.on_request:
            raise HandlerError(f"{type(obj).__name__} does nothing yet: define on_request(self, task) in it.")
        obj.name = obj.name or type(obj).__name__
        obj.description = obj.description or _first_paragraph(type(obj))
        return obj
    if callable(obj) and not isinstance(obj, type):
        is_async = inspect.iscoroutinefunction(obj) or inspect.isasyncgenfunction(obj)
        return _AsyncFunctionHandler(obj) if is_async else _FunctionHandler(obj)
    raise HandlerError(f"An agent is a SkillHandler or a function; {obj!r} is neither.")


def load_handler(path: str) -> SkillHandler:
    """The handler that a dotted path names, as in `my_agents.weather:Weather`.

    Raises:
        HandlerError: it cannot be found, imported or used.
    """
    module_name, colon, name = path.partition(":")
    if not (module_name and colon and name):
        raise HandlerError(f"{path!r} names no handler: write it as package.module:Name.")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise HandlerError(f"The module {module_name!r} of {path!r} cannot be imported: {error}") from error
    if not hasattr(module, name):
        raise HandlerError(f"The module {module_name!r} has no {name!r}: check the name after the colon.")
    return as_handler(getattr(module, name))


def _instance(kind: type[SkillHandler]) -> SkillHandler:
    try:
        return kind()
    except TypeError as error:
        raise HandlerError(f"{kind.__name__} must be creatable without arguments: {error}") from error


def _first_argument(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """What to make of the task for a function that wants the context, the message or only the text."""
    name = getattr(function, "__name__", repr(function))
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise HandlerError(f"{name}() must take a parameter, for the text, the message or the task.")
    first, *others = parameters
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if any(other.default is other.empty and other.kind not in optional for other in others):
        raise HandlerError(f"{name}() must do with one parameter; give the others default values.")
    wanted = _hint(function, first)
    if wanted in (TaskContext, SyncTaskContext):
        return lambda task: task
    if wanted is Message:
        return lambda task: task.message
    if wanted is str or first.name not in ("task", "message"):
        return lambda task: task.message.text
    return (lambda task: task) if first.name == "task" else (lambda task: task.message)


def _hint(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    try:
        return typing.get_type_hints(function).get(parameter.name)
    except Exception:
        # Annotations that cannot be resolved here, such as names imported for type checkers only.
        known = {"TaskContext": TaskContext, "SyncTaskContext": SyncTaskContext, "Message": Message, "str": str}
        return known.get(str(parameter.annotation).rpartition(".")[2])


def _first_paragraph(described: object) -> str:
    # Not inspect.getdoc: it would hand a class the docstring of its parent.
    return " ".join(inspect.cleandoc(described.__doc__ or "").split("\n\n")[0].split())
