"""Importing the model library without holding up an event loop: it takes seconds."""

from __future__ import annotations

import asyncio
import importlib

_imported: set[str] = set()  # not `sys.modules`, where a module stands before it is imported to its end


async def imported(*modules: str) -> None:
    """Imports modules in a thread, unless that is done."""
    for module in modules:
        if module not in _imported:
            await asyncio.to_thread(importlib.import_module, module)
            _imported.add(module)
