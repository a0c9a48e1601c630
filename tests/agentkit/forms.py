"""Every form in which an author may write a handler, each around a function that is given what the handler is given."""

from collections.abc import Callable
from typing import Any

from agentkit import Message, SkillHandler, SyncTaskContext, TaskContext, Thread, skill

End = Callable[[Any], Any]
WANTED = {
    "text": ("text", str),
    "a message": ("message", None),
    "the task": ("task", None),
    "the history": ("history", None),
    "a thread": ("said", Thread),
    "a list of messages": ("said", list[Message]),
}


def _functions(end: End, name: str, kind: Any) -> dict[str, Callable[..., Any]]:
    """The four kinds of functions, with a parameter of this name and annotation."""
    source = f"""
def function({name}): return end({name})
async def async_function({name}): return end({name})
def generator({name}):
    value = end({name})
    return value
    yield
async def async_generator({name}):
    value = end({name})
    for one in value if isinstance(value, list) else [] if value is None else [value]:
        yield one
"""
    scope: dict[str, Any] = {"end": end}
    exec(source, scope)
    found = {kind_: scope[kind_] for kind_ in ("function", "async_function", "generator", "async_generator")}
    for one in found.values():
        one.__annotations__ = {} if kind is None else {name: kind}
    return found


def _form(kind: str, name: str, annotation: Any) -> Callable[[End], Any]:
    return lambda end: _functions(end, name, annotation)[kind]


class Taking(SkillHandler):
    """Takes a request by `end`."""

    end: End

    def on_request(self, task: SyncTaskContext) -> Any:
        return type(self).end(task)


class AsyncTaking(Taking):
    async def on_request(self, task: TaskContext) -> Any:  # type: ignore[override]
        return type(self).end(task)


class GeneratorTaking(Taking):
    def on_request(self, task: SyncTaskContext) -> Any:
        return type(self).end(task)
        yield


class Skilled(SkillHandler):
    end: End

    @skill()
    def only(self, task: SyncTaskContext) -> Any:
        return type(self).end(task)


class AsyncSkilled(SkillHandler):
    end: End

    @skill()
    async def only(self, task: TaskContext) -> Any:
        return type(self).end(task)


def _class(kind: type) -> Callable[[End], Any]:
    return lambda end: type(kind.__name__, (kind,), {"end": staticmethod(end)})


FORMS: dict[str, Callable[[End], Any]] = {
    f"{kind.replace('_', ' ')} of {title}": _form(kind, name, annotation)
    for kind in ("function", "async_function", "generator", "async_generator")
    for title, (name, annotation) in WANTED.items()
} | {
    "method": _class(Taking),
    "async method": _class(AsyncTaking),
    "generator method": _class(GeneratorTaking),
    "skill": _class(Skilled),
    "async skill": _class(AsyncSkilled),
}
