"""Loading the handlers of hosted agents, once in a process, and again where an agent is registered with changed code.

A module that changed is imported anew beside the old one: turns that run keep the objects that they began with.
"""

from __future__ import annotations

import asyncio
import datetime
import importlib
import logging
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from types import ModuleType

from django.conf import settings
from django.utils import timezone

from agentkit import HandlerError, SkillHandler, load_handler
from apps.agents.models import Agent

log = logging.getLogger("parley.engine")

HOUSE = frozenset({"agentkit", "apps", "examples", "parley"})  # Parley's own code changes with a restart only

type Files = dict[str, tuple[int, int]]
"""Time and size of source files, by their paths."""


@dataclass(slots=True)
class Loaded:
    """`at`: when its files were last found to be those of `files`."""

    handler: SkillHandler
    files: Files
    at: datetime.datetime


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
    """The agent's handler, imported in a thread because that may take seconds. Raises agentkit.HandlerError."""
    known = _loaded.get(agent.handler)
    if known is None:
        return await asyncio.to_thread(handler_at, agent.handler)
    if settings.EMBEDDED and _was_saved_since(agent, known.at):
        await asyncio.to_thread(_reload, agent.handler)
    return handler_at(agent.handler)


def forget() -> None:
    """For tests: load all handlers again."""
    _loaded.clear()


def _was_saved_since(agent: Agent, at: datetime.datetime) -> bool:
    saved = vars(agent).get("updated_at")  # not where a query left it out
    return saved is not None and saved > at


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
