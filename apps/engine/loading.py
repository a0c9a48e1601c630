"""Loading the handlers of hosted agents, once in a process, and again where an agent is registered with changed code.

A module that changed is imported anew beside the old one: turns that run keep the objects that they began with.
"""

from __future__ import annotations

import asyncio
import datetime
import importlib
import inspect
import logging
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import cache_from_source
from pathlib import Path
from types import ModuleType

from django.conf import settings
from django.utils import timezone

from agentkit import HandlerError, ResponseType, SkillHandler, load_handler
from agentkit.runner import constant_response_type
from apps.agents.models import Agent

log = logging.getLogger("parley.engine")

HOUSE = frozenset({"agentkit", "apps", "examples", "parley"})  # Parley's own code changes with a restart only

type Files = dict[str, tuple[int, int]]
"""Time and size of source files, by their paths."""


@dataclass(slots=True)
class Loaded:
    """A handler, and what need not be asked of it for each message.

    Attributes:
        at: when its files were last found to be those of `files`.
        always_task: is each message that names no skill answered by a task, and is there no skill to choose?
    """

    handler: SkillHandler
    files: Files
    at: datetime.datetime
    always_task: bool = field(init=False)

    def __post_init__(self) -> None:
        kind = type(self.handler)
        has_constant_skills = not isinstance(inspect.getattr_static(kind, "skills"), property)
        chooses = not has_constant_skills or len(kind.skills) > 1 or kind.negotiate is not SkillHandler.negotiate
        try:
            self.always_task = not chooses and constant_response_type(self.handler) is ResponseType.TASK
        except HandlerError:  # of which the task tells
            self.always_task = False


_loaded: dict[str, Loaded] = {}
_loading = threading.RLock()


def handler_at(path: str) -> SkillHandler:
    """The handler at a dotted path. Raises agentkit.HandlerError."""
    if (known := _loaded.get(path)) is not None:
        return known.handler
    with _loading:
        if path not in _loaded:
            at = timezone.now()
            _loaded[path] = Loaded(load_handler(path), _files_of(path), at)
        return _loaded[path].handler


async def handler_of(agent: Agent) -> SkillHandler:
    """The agent's handler. Raises agentkit.HandlerError."""
    return (await load(agent)).handler


async def load(agent: Agent) -> Loaded:
    """The agent's handler, imported in a thread because that may take seconds. Raises agentkit.HandlerError."""
    if agent.handler not in _loaded:
        await asyncio.to_thread(handler_at, agent.handler)
    elif settings.EMBEDDED:
        saved = vars(agent).get("updated_at")  # not where a query left it out
        if saved is not None and saved > _loaded[agent.handler].at:
            await asyncio.to_thread(_reload, agent.handler)
    return _loaded[agent.handler]


def forget() -> None:
    """For tests: load all handlers again."""
    _loaded.clear()


def _reload(path: str) -> None:
    """Load the handler again if files of its package changed. What cannot be loaded leaves the old one."""
    with _loading:
        known, now, files = _loaded[path], timezone.now(), _files_of(path)
        known.at = now
        is_same = all(files.get(file) == about for file, about in known.files.items())
        if is_same or _package_of(path) in HOUSE:
            known.files = files  # with modules that were imported since
            return
        kept = _modules_of(path)
        for name in kept:
            del sys.modules[name]
        for file in files:
            with suppress(OSError, NotImplementedError):  # its time is in whole seconds
                Path(cache_from_source(file)).unlink()
        importlib.invalidate_caches()
        try:
            handler = load_handler(path)
        except HandlerError as error:
            sys.modules.update(kept)
            log.warning("the changed code of %s cannot be loaded, so the old one stays: %s", path, error)
            return
        _loaded[path] = Loaded(handler, _files_of(path), now)
        log.info("%s was loaded again, because its code changed", path)


def _package_of(path: str) -> str:
    return path.partition(":")[0].partition(".")[0]


def _modules_of(path: str) -> dict[str, ModuleType]:
    """The imported modules of the handler's package."""
    package = _package_of(path)
    return {name: found for name, found in list(sys.modules.items()) if name.partition(".")[0] == package}


def _files_of(path: str) -> Files:
    found: Files = {}
    for module in _modules_of(path).values():
        file = getattr(module, "__file__", None)
        if file and file.endswith(".py"):
            with suppress(OSError):
                about = Path(file).stat()
                found[file] = about.st_mtime_ns, about.st_size
    return found
