"""From what an author wrote to a handler that can be driven, with what is wrong said in one sentence."""

import importlib
import inspect
from types import ModuleType
from typing import Any

from agentkit.deciding import takes_slot
from agentkit.errors import HandlerError
from agentkit.functions import function_handler
from agentkit.handlers import SkillHandler
from agentkit.negotiation import by_words
from agentkit.skills import first_paragraph, unique
from agentkit.slots import wanted_by


def as_handler(obj: object) -> SkillHandler:
    """A handler from an instance or a subclass of `SkillHandler`, or from a plain function of any kind.

    Raises:
        HandlerError: it is none of these, or cannot be used as one.
    """
    if isinstance(obj, type) and issubclass(obj, SkillHandler):
        obj = _instance(obj)
    if isinstance(obj, SkillHandler):
        _check(obj)
        obj.name = obj.name or type(obj).__name__
        obj.description = obj.description or first_paragraph(type(obj))
        return obj
    if callable(obj) and not isinstance(obj, type):
        return function_handler(obj)
    raise HandlerError(f"An agent is a SkillHandler or a function; {obj!r} is neither.")


def load_handler(path: str) -> SkillHandler:
    """The handler that a dotted path names, as in `my_agents.weather:Weather`.

    Raises:
        HandlerError: it cannot be found, imported or used.
    """
    module_name, _, name = path.partition(":")
    if not (name.isidentifier() and all(part.isidentifier() for part in module_name.split("."))):
        raise HandlerError(f"{path!r} names no handler: write it as package.module:Name.")
    module = _module(module_name, path)
    if not hasattr(module, name):
        raise HandlerError(f"The module {module_name!r} has no {name!r}: check the name after the colon.")
    return as_handler(getattr(module, name))


def _module(name: str, path: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing and (name == missing or name.startswith(f"{missing}.")):
            raise HandlerError(
                f"The module {name!r} of {path!r} cannot be imported: {_told(error)}. Install its package, or name the "
                "folder that it is in by PYTHONPATH."
            ) from error
        raise HandlerError(f"The module {name!r} of {path!r} cannot be imported: {_told(error)}.") from error
    except (Exception, SystemExit) as error:
        raise HandlerError(f"The module {name!r} of {path!r} cannot be imported: {_told(error)}.") from error


def _instance(kind: type[SkillHandler]) -> SkillHandler:
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(getattr(kind, "__abstractmethods__", ())))
        raise HandlerError(f"{kind.__name__} is abstract: define {missing} in a subclass, and name that.")
    try:
        return kind()
    except TypeError as error:
        raise HandlerError(f"{kind.__name__} must be creatable without arguments: {error}") from error
    except Exception as error:
        raise HandlerError(f"{kind.__name__} cannot be created: {_told(error)}.") from error


def _check(handler: SkillHandler) -> None:
    """Raises HandlerError for what would fail only in a turn."""
    kind = type(handler)
    if kind.on_request is SkillHandler.on_request and not kind.skill_methods:
        raise HandlerError(f"{kind.__name__} does nothing yet: define on_request(self, task) in it.")
    known = {one.id for one in unique(handler.skills, kind.__name__)}
    if isinstance(handler.choose_skill, by_words) and (unknown := {*(handler.choose_skill.words or ())} - known):
        raise HandlerError(f"{kind.__name__} has no skill {sorted(unknown)[0]!r}, which its by_words names.")
    for name in ("on_request", "on_cancel", *kind.skill_methods.values()):
        _check_call(handler, name, ["task"])
    _check_call(handler, "on_input_received", ["task"], ["task", "slot"])
    _check_call(handler, "negotiate", ["message"])
    if handler.choose_skill is not None:
        _check_call(handler, "choose_skill", ["message", "skills"])
    if takes_slot(handler):
        wanted_by(handler.on_input_received)


def _check_call(handler: SkillHandler, name: str, *ways: list[str]) -> None:
    """Can the method be called with these arguments, in one of these ways?"""
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


def _told(error: BaseException) -> str:
    """What went wrong, in one line, with the kind of error."""
    said = " ".join(str(error).split())
    return (said if isinstance(error, HandlerError) else f"{type(error).__name__}: {said}").rstrip(". :")
