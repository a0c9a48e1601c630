"""Agents as classes or functions, and loading them by path.

Mistakes raise `HandlerError` when an agent is loaded.
"""

import importlib
import inspect
import typing
from collections.abc import Awaitable, Callable, Sequence
from types import ModuleType
from typing import Any, ClassVar, TypedDict, Unpack

from agentkit import selecting, skills
from agentkit.clients import Wish
from agentkit.content.messages import Message
from agentkit.context import SyncTaskContext, TaskContext
from agentkit.errors import HandlerError, did_you_mean, near_miss
from agentkit.selecting import Choice, Chooser, Decision, ResponseType, Selector, Start, by_words
from agentkit.skills import Skill, first_paragraph, unique_skills
from agentkit.slots import slot_annotation
from agentkit.turns import Thread


class SkillHandler:
    """An agent. Subclass it and write `on_request`, as `def` or `async def`.

    An agent with several skills has a method marked with `@skill` for each; `on_request` takes the rest. A `def` runs
    in a thread with a `SyncTaskContext`, an `async def` on the event loop with a `TaskContext`. Methods may be
    generators. One instance serves all tasks at once: keep a task's data in `task.memory`, a conversation's in
    `task.session.memory`.

    Attributes:
        skills: for the card; `load_skills` reads them from a file. Skills of `@skill` methods are added.
        choose_skill: chooses a skill if the message names none, such as `by_words(…)`.
        input_modes, output_modes: media types; `*/*` and `text/*` are allowed.
        response_type: `"task"`, `"message"`, or a selector such as `by_rules(…)`.
        retry_safe: may a turn be repeated after a crash?
        time_limit: seconds for a turn; None for no limit.
        usual_seconds: how long a turn usually takes. Who waits is told when one takes twice as long.
        steerable: does it read `task.inbox`, and end at `task.stop_requested`? People are then offered both.
        attempts: how often a `retry_safe` turn may start, the first time included.
        listed: do people choose it? If not, only other agents and plans call it. Operators may change this.
        offers_models: may people choose the language model of a conversation, from those that operators offer? Then
            `LlmWorker` and `LlmFunction` without a model of their own use the chosen one.
        wishes: what of a client the agent honors, of `tools` (`task.client.tools`), `output` and `settings`. With
            `LlmWorker`, take `MODEL_WISHES`.
        takes_projects: does it ask other platforms for the project of a conversation, by its card? A host that imports
            the agent always gives `task.project`.
        takes_memory: may people let it read what they want agents to know (`task.user_memory`)? It asks other platforms
            for it by its card.
        category: the heading under which lists show it, at most 40 characters. Operators may change this.
    """

    name: str = ""
    description: str = ""
    version: str = "1.0.0"
    skills: Sequence[Skill] = ()
    choose_skill: Chooser | None = None
    input_modes: Sequence[str] = ("text/plain",)
    output_modes: Sequence[str] = ("text/plain",)
    response_type: Choice | Selector = ResponseType.TASK
    retry_safe: bool = False
    time_limit: float | None = 600.0
    usual_seconds: float | None = None
    steerable: bool = False
    attempts: int = 3
    listed: bool = True
    offers_models: bool = False
    wishes: Sequence[Wish] = ()
    takes_projects: bool = False
    takes_memory: bool = False
    category: str = ""
    skill_methods: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.skill_methods = skills.skill_methods_of(cls)
        if not isinstance(inspect.getattr_static(cls, "skills"), property):
            cls.skills = skills.declared_skills(cls, cls.skills)

    # Type checkers then allow both signatures of subclasses.
    def select_response_type(self, *args: Any, **kwargs: Any) -> Any:
        """Override it to choose a response type for each message. May be `def` (runs in a thread) or `async def`.

        Define it as `(self, message)` or `(self, message, task)`: `task` is the newest `ExistingTask` of the
        conversation, or None. By default `response_type` decides. Messages that continue a task stay with it.
        """
        return self.selector(*args) if callable(self.selector) else self.selector

    @property
    def selector(self) -> Choice | Selector:
        """`response_type` as written, so that a function in the class body is not bound as a method."""
        written = inspect.getattr_static(self, "response_type")
        selector: Choice | Selector = written.__func__ if isinstance(written, staticmethod) else written
        return selector

    def negotiate(self, message: Message) -> Decision | Awaitable[Decision]:
        """Override it to decide about a message that starts a task: `Start`, `Clarify` or `Reject`. May be `def` or
        `async def`.

        By default it takes the sender's `metadata.skillId`, the only skill, or the choice of `choose_skill`. Clarify
        and Reject answer with a message, without a task. If there must be a task, it asks or is rejected.
        """
        if (decided := selecting.named_skill(message, self.skills)) is not None:
            return decided
        if len(self.skills) == 1:
            return Start(self.skills[0].id)
        if self.skills and self.choose_skill is not None:
            return self.choose_skill(message, self.skills)
        needs_one = self.skill_methods and type(self).on_request is SkillHandler.on_request
        return selecting.ask_which_skill(self.skills) if needs_one else Start()

    def on_request(self, task: Any) -> Any:
        """Takes a turn. Returns anything that `as_outcome` accepts."""
        raise HandlerError(f"{type(self).__name__} has no method for this: define on_request(self, task) in it.")

    # Type checkers then allow both signatures of subclasses.
    def on_input_received(self, *args: Any, **kwargs: Any) -> Any:
        """Takes the turn after the question `task.slot`.

        By default `on_request` takes it, or the task's `@skill` method. Define it as `(self, task)` or `(self, task,
        slot)`. Annotate `slot` with the type of `InputRequired(slot=…)`, or a union: for a Pydantic model, `slot` is
        the filled-in model, and the question is repeated until the answer fits; for a name (str) or an Enum member it
        is that name or member.
        """
        return self.on_request(*args[:1])

    def ailment(self) -> str:
        """Why the agent cannot work now, such as a missing model, as a sentence for operators; "" if it can.

        The host asks from time to time, so it must be quick.
        """
        return ""

    def on_cancel(self, task: Any) -> Any:
        """Cleans up after a stop, within five seconds. Reports such as `task.progress` raise `Stopped`."""


class Traits(TypedDict, total=False):
    """The arguments of `@agent`: attributes of a `SkillHandler`."""

    name: str
    description: str
    version: str
    skills: Sequence[Skill]
    input_modes: Sequence[str]
    output_modes: Sequence[str]
    response_type: Choice | Selector
    retry_safe: bool
    time_limit: float | None
    usual_seconds: float | None
    steerable: bool
    attempts: int
    listed: bool
    offers_models: bool
    wishes: Sequence[Wish]
    takes_projects: bool
    takes_memory: bool
    category: str


def agent[F: Callable[..., Any]](**traits: Unpack[Traits]) -> Callable[[F], F]:
    """Describe a function as an agent: `@agent(name="Shout", skills=[…])`."""
    known = Traits.__annotations__.keys()
    for name in sorted(traits.keys() - known):
        raise HandlerError(f"@agent does not know {name}.{did_you_mean(name, known)}")

    def describe(function: F) -> F:
        function.__agent_traits__ = traits  # type: ignore[attr-defined]
        return function

    return describe


def function_handler(function: Callable[..., Any]) -> SkillHandler:
    """A handler from a function: `def` or `async def`, generator or not.

    Its one parameter receives the text, unless it is called `message`, `task`, `history` or `thread`, or annotated with
    `Message`, `TaskContext`, `SyncTaskContext`, `Thread` or `list[Message]`. The conversation (`Thread` or list) has
    the newest message last.

    Raises:
        HandlerError: it cannot be called with one argument.
    """
    is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    handler = _AsyncFunctionHandler(function) if is_async else _FunctionHandler(function)
    _check_response_type(handler)
    return handler


class _FunctionHandler(SkillHandler):
    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.argument = _argument_reader(function)
        self.name = getattr(function, "__name__", "agent").replace("_", " ").capitalize()
        vars(self).update(getattr(function, "__agent_traits__", {}))
        self.description = self.description or first_paragraph(function)

    def on_request(self, task: SyncTaskContext) -> Any:
        return self.function(self.argument(task))


class _AsyncFunctionHandler(_FunctionHandler):
    async def on_request(self, task: TaskContext) -> Any:  # type: ignore[override]
        result = self.function(self.argument(task))
        return await result if inspect.isawaitable(result) else result


def _argument_reader(function: Callable[..., Any]) -> Callable[[Any], Any]:
    name = getattr(function, "__name__", repr(function))
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise HandlerError(f"{name}() must take a parameter, for the text, the message, the history or the task.")
    first, *others = parameters
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if any(other.default is other.empty and other.kind not in optional for other in others):
        raise HandlerError(f"{name}() must do with one parameter; give the others default values.")
    wanted = _annotation(function, first)
    if wanted in BY_HINT:
        return BY_HINT[wanted]
    if typing.get_origin(wanted) in (list, Sequence) and typing.get_args(wanted) == (Message,):
        return lambda task: list(Thread.of(task))
    return BY_NAME.get(first.name, _message_text)


def _message_text(task: Any) -> str:
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
    str: _message_text,
}


def _annotation(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    try:
        return typing.get_type_hints(function).get(parameter.name)
    except Exception:
        # Some annotations cannot be resolved, such as imports for type checkers.
        written = str(parameter.annotation).replace("agentkit.", "")
        known = {kind.__name__: kind for kind in BY_HINT}
        return list[Message] if written in ("list[Message]", "Sequence[Message]") else known.get(written)


def as_handler(obj: object) -> SkillHandler:
    """A handler from a `SkillHandler` subclass or instance, or from a function.

    Raises:
        HandlerError: it is none of these, or cannot be used.
    """
    if isinstance(obj, type) and issubclass(obj, SkillHandler):
        obj = _instantiate(obj)
    if isinstance(obj, SkillHandler):
        _check(obj)
        obj.name = obj.name or type(obj).__name__
        obj.description = obj.description or first_paragraph(type(obj))
        return obj
    if callable(obj) and not isinstance(obj, type):
        return function_handler(obj)
    raise HandlerError(f"An agent is a SkillHandler or a function; {obj!r} is neither.")


def load_handler(path: str) -> SkillHandler:
    """The handler at a dotted path such as `my_agents.weather:Weather`.

    Raises:
        HandlerError: it cannot be found, imported or used.
    """
    module_name, _, name = path.partition(":")
    if not (name.isidentifier() and all(part.isidentifier() for part in module_name.split("."))):
        raise HandlerError(f"{path!r} names no handler: write it as package.module:Name.")
    module = _import(module_name, path)
    if not hasattr(module, name):
        raise HandlerError(f"The module {module_name!r} has no {name!r}: check the name after the colon.")
    return as_handler(getattr(module, name))


def _import(name: str, path: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing and (name == missing or name.startswith(f"{missing}.")):
            raise HandlerError(
                f"The module {name!r} of {path!r} cannot be imported: {_error_line(error)}. "
                "Install its package, or name the folder that it is in by PYTHONPATH."
            ) from error
        raise HandlerError(f"The module {name!r} of {path!r} cannot be imported: {_error_line(error)}.") from error
    except BaseException as error:
        raise HandlerError(f"The module {name!r} of {path!r} cannot be imported: {_error_line(error)}.") from error


def _instantiate(kind: type[SkillHandler]) -> SkillHandler:
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(getattr(kind, "__abstractmethods__", ())))
        raise HandlerError(f"{kind.__name__} is abstract: define {missing} in a subclass, and name that.")
    try:
        return kind()
    except TypeError as error:
        raise HandlerError(f"{kind.__name__} must be creatable without arguments: {error}") from error
    except BaseException as error:
        raise HandlerError(f"{kind.__name__} cannot be created: {_error_line(error)}.") from error


def _check(handler: SkillHandler) -> None:
    """Raises HandlerError for mistakes that a turn would only show later."""
    kind = type(handler)
    if kind.on_request is SkillHandler.on_request and not kind.skill_methods:
        raise HandlerError(f"{kind.__name__} does nothing yet: define on_request(self, task) in it.")
    _check_names(handler)
    _check_response_type(handler)
    known = {one.id for one in unique_skills(handler.skills, kind.__name__)}
    if isinstance(handler.choose_skill, by_words) and (unknown := {*(handler.choose_skill.words or ())} - known):
        raise HandlerError(f"{kind.__name__} has no skill {sorted(unknown)[0]!r}, which its by_words names.")
    for name in ("on_request", "on_cancel", *kind.skill_methods.values()):
        _check_call(handler, name, ["task"])
    _check_call(handler, "on_input_received", ["task"], ["task", "slot"])
    _check_call(handler, "negotiate", ["message"])
    _check_call(handler, "select_response_type", ["message"], ["message", "task"])
    if handler.choose_skill is not None:
        _check_call(handler, "choose_skill", ["message", "skills"])
    if takes_slot(handler):
        slot_annotation(handler.on_input_received)


METHODS = ("select_response_type", "negotiate", "on_request", "on_input_received", "on_cancel", "ailment")
ATTRIBUTES = (
    "description",
    "choose_skill",
    "input_modes",
    "output_modes",
    "response_type",
    "retry_safe",
    "time_limit",
    "usual_seconds",
    "steerable",
)


def _check_names(handler: SkillHandler) -> None:
    """Raises HandlerError for a method or an attribute whose name is nearly one that `SkillHandler` has."""
    kind = type(handler)
    bases = kind.__mro__[: kind.__mro__.index(SkillHandler)]
    own = {name for base in bases for name in vars(base)} | vars(handler).keys()
    for name in sorted(one for one in own if not one.startswith("_") and not hasattr(SkillHandler, one)):
        value = inspect.getattr_static(handler, name)
        near = near_miss(name, METHODS if callable(value) else ATTRIBUTES)
        if near and near not in own and not hasattr(value, "__skill__"):
            raise HandlerError(f"{kind.__name__} has {name}, which nothing calls. Did you mean {near}?")


def _check_response_type(handler: SkillHandler) -> None:
    """Raises HandlerError for a `response_type` that is none."""
    selector = handler.selector
    if not callable(selector):
        selecting.response_type_of(selector)


def _check_call(handler: SkillHandler, name: str, *ways: list[str]) -> None:
    """Can the method be called with one of these argument lists?"""
    method: Any = getattr(handler, name)
    if not callable(method):
        raise HandlerError(f"{type(handler).__name__}.{name} must be a method.")
    signature = inspect.signature(method)
    for way in ways:
        try:
            signature.bind(*way)
        except TypeError:
            continue
        return
    wanted = " or ".join(f"{name}({', '.join(['self', *way])})" for way in ways)
    raise HandlerError(f"{type(handler).__name__} must define {wanted}; it has {name}{signature}.")


def _error_line(error: BaseException) -> str:
    said = " ".join(str(error).split())
    return (said if isinstance(error, HandlerError) else f"{type(error).__name__}: {said}").rstrip(". :")


def takes_slot(handler: SkillHandler) -> bool:
    """Does its own `on_input_received` take the slot?"""
    if type(handler).on_input_received is SkillHandler.on_input_received:
        return False
    try:
        inspect.signature(handler.on_input_received).bind("task", "slot")
    except TypeError:
        return False
    return True
