"""Functions that settings name by dotted paths, and the core calls without importing their modules.

| setting | called | with |
|---|---|---|
| `LEDGER_LISTENERS` | in the transaction of new events of a watched context | the context, the events |
| `ANSWER_LISTENERS` | after the commit of an answer, a task's end or question | the context, the events |
| `SEND_OBSTACLES` | before a new message is recorded | the sender, the agent; raises a Refusal |
| `USAGE_LISTENERS` | in the transaction that ends a run with usage | the run's key, the task, the agent's key, usage |
| `MODEL_OBSTACLES` | awaited before a request to a model | cost and tokens of this use so far; raises AgentFailure |
| `BEFORE_ERASURE` | before a context's rows are deleted | the context; may return stored parts to release |
| `CONTEXT_INHERITED` | when a fork inherits rows of an erased context | the context, the fork, the last index |
| `FILES_RELEASED` | after a context was erased | its owner's key, the digests of its files |
| `RESTORE_CONTEXT` | when a context in cold storage is used | its key |
| `DISCARD_ARCHIVE` | when a context with a damaged archive is deleted | the context; returns its tasks' keys |
| `BEFORE_COLD` | before a context is archived | the context |
| `COLD_OBSTACLES` | before a context is archived | the context; returns why it must stay, or "" |
| `EXECUTORS` | for a turn of an agent of this kind | the assignment, the task's context, how to release its slot |
| `CREDENTIAL_LINK` | when a turn ends | its outcome; returns the link if it asks for a credential |
| `PAYMENT_BUDGETS` | in the transaction in which a task asks for a payment | the task, the event's index, its choices |
| `CREDENTIAL_LENDER` | when a handler asks for a credential | the assignment, the service |
| `ARTIFACT_SIGNER` | when a signing agent delivers | the task, its artifacts, the input hashes of runs |
| `SIGNATURE_VERDICTS` | for pages of artifacts | tasks; returns verdicts on remote signatures by (task, artifact id) |
| `SWEEPS` | with every engine sweep | nothing |
| `BEFORE_WORK` | before the embedded worker takes work | nothing |

The core does not call `RESTORERS` and `DEFINITION_WRITERS` (see `apps.agents`), `EXAMINERS` (`features.health`), or
`ANALYTICS_SOURCES` and `STORAGE_METERS` (`features.analytics`).
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
    """The functions that a setting lists, in order."""
    return tuple(import_string(path) for path in getattr(settings, setting))
