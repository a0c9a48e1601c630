"""What the core calls without knowing it: functions that settings name by their dotted paths.

| setting | called | with |
|---|---|---|
| `LEDGER_LISTENERS` | in the transaction of new events | the context, the events |
| `BEFORE_ERASURE` | before the rows of a context are deleted | the context; may give stored parts to be released |
| `CONTEXT_INHERITED` | when a fork inherits what it shares of an erased context | the context, the fork, up to where |
| `FILES_RELEASED` | when a context was erased | its owner's key, the digests of files that it named |
| `RESTORE_CONTEXT` | when a context in cold storage is used | its key |
| `DISCARD_ARCHIVE` | when a context is deleted whose archive is damaged | the context; gives the keys of its tasks |
| `BEFORE_COLD` | before the rows of a context are written to its archive | the context |
| `COLD_OBSTACLES` | before a context goes into cold storage | the context; says why it has to stay, or "" |
| `EXECUTORS` | for a turn of an agent of this kind | the assignment, the task's context, how to release its slot |
| `CREDENTIAL_LINK` | when a turn ends | its outcome; gives the link of a turn that asks for a credential |
| `CREDENTIAL_LENDER` | when a handler asks for a credential | the assignment, the service |
| `ARTIFACT_SIGNER` | when an agent delivers that signs | the task, its artifacts, the input hashes of runs |
| `SWEEPS` | with every sweep of the engine | nothing |
| `BEFORE_WORK` | before the embedded worker takes work | nothing |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string


@cache
def hook(setting: str) -> Callable[..., Any]:
    """The function that a setting names."""
    found: Callable[..., Any] = import_string(getattr(settings, setting))
    return found


@cache
def hooks(setting: str) -> tuple[Callable[..., Any], ...]:
    """The functions that a setting lists, in their order."""
    return tuple(import_string(path) for path in getattr(settings, setting))
