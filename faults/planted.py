"""Defects to plant, so that the judge can be judged: an app that patches Parley when it starts (`faults.settings`).

Each function takes out one thing that the record's promises rest on. `DEFECTS` has them by name, each with the faults
that bring it to light.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any
from unittest import mock

from django.apps import AppConfig
from django.conf import settings

Patch = Callable[[], None]


def _put(path: str, replacement: Any) -> None:
    """Replace what the dotted path names, for the life of the process."""
    mock.patch(path, replacement).start()


def no_fence() -> None:
    """A run writes though its lease has ended and another worker has it."""
    from django.conf import settings

    from apps.record import ledger
    from parley.db.sql import Now

    def renew_lease(self: Any, lease: Any, values: Any = None) -> None:
        self.acquire_lease(lease, {"id": lease.run_id}, values or {"lease_until": Now(settings.RUN_LEASE_SECONDS)})

    _put("apps.record.ledger.Ledger.renew_lease", renew_lease)
    _put("apps.engine.worker.check_leases", lambda leases, extend: dict.fromkeys(leases, False))
    assert ledger


def no_sweep() -> None:
    """Nobody looks for runs that the queue or their worker has lost."""
    _put("apps.engine.jobs.sweep", lambda: 0)


def no_owner_filter() -> None:
    """Whoever has the id of a task sees it."""
    for path in (
        "apps.record.models.Task.is_seen_by",
        "apps.record.models.Context.is_seen_by",
        "apps.record.reading.task_json.TaskText.is_seen_by",
    ):
        _put(path, lambda self, principal: True)
    for path in ("apps.record.models.TaskQuerySet.visible_to", "apps.record.models.ContextQuerySet.visible_to"):
        _put(path, lambda self, principal: self)


def no_compare_and_swap() -> None:
    """Rows are written whatever they have become since they were read, so that each message claims its run."""
    from apps.record.ledger import Ledger

    updates = Ledger._updates

    def unconditional(self: Any, artifacts: Any) -> list[Any]:
        return [one._replace(where={"id": one.where["id"]}) for one in updates(self, artifacts)]

    _put("apps.record.ledger.Ledger._updates", unconditional)
    _put("apps.engine.worker.check_leases", lambda leases, extend: dict.fromkeys(leases, False))


def lost_notifications() -> None:
    """Processes do not tell one another what has grown, and nobody polls for it."""
    _put("apps.record.reading.notifications.Relay.send", lambda self, *args, **kwargs: None)
    _put("apps.record.reading.feed.Hub._poll_from_now_on", lambda self: None)


def listener_after_commit() -> None:
    """Webhooks are queued some time after the commit of their events, and not with it."""
    from django.db import transaction

    from apps.a2a import webhooks
    from parley.db.sql import write_transaction

    queue_deliveries = webhooks.queue_deliveries

    def later(context: Any, events: Any) -> None:
        def queue() -> None:
            time.sleep(2)
            with write_transaction():
                queue_deliveries(context, events)

        transaction.on_commit(queue)

    _put("apps.a2a.webhooks.queue_deliveries", later)


def no_idempotency() -> None:
    """A repeated message is taken for a new one."""
    from apps.engine import accept

    accepting = accept.accept

    def accept_again(*args: Any, **kwargs: Any) -> Any:
        return accepting(*args, **kwargs | {"sender": uuid.uuid4().hex})

    _put("apps.engine.accept.accept", accept_again)
    _put("apps.engine.accept.find_accepted", lambda *args: None)


def resume_off_by_one() -> None:
    """A resumed stream leaves out the event after the last one that was heard."""
    from apps.a2a import operations
    from apps.record.reading import sync

    resume_index = operations._resume_index
    _put("apps.a2a.operations._resume_index", lambda place, newest: min(newest, resume_index(place, newest) + 1))
    assert sync


def redirect_followed() -> None:
    """Webhooks are called by a plain client, which goes where an answer leads."""
    import httpx

    from apps.a2a.webhooks import CallResult

    async def call(client: Any, claimed: Any) -> Any:
        async with httpx.AsyncClient(follow_redirects=True, trust_env=False) as plain:
            try:
                answer = await plain.post(claimed.url, headers=claimed.headers, content=claimed.body)
            except httpx.HTTPError as error:
                return CallResult(error=str(error))
        return CallResult(answer.status_code)

    _put("apps.a2a.webhooks._call", call)


def no_sanitizer() -> None:
    """Messages are shown as they were sent."""
    _put("apps.record.content.rendering.render_markdown", lambda text, around=None: text)
    _put("apps.record.content.rendering.render_plain", lambda text: text)


DEFECTS: dict[str, tuple[Patch, str]] = {
    "no-fence": (no_fence, "freeze"),
    "no-sweep": (no_sweep, "kill-worker,broker-flush"),
    "no-owner-filter": (no_owner_filter, "kill-beat"),
    "no-compare-and-swap": (no_compare_and_swap, "doubled-messages"),
    "lost-notifications": (lost_notifications, "kill-beat"),
    "listener-after-commit": (listener_after_commit, "kill-worker"),
    "no-idempotency": (no_idempotency, "kill-web"),
    "resume-off-by-one": (resume_off_by_one, "kill-web"),
    "redirect-followed": (redirect_followed, "kill-beat"),
    "no-sanitizer": (no_sanitizer, "kill-beat"),
}


class Planted(AppConfig):
    name = "faults"
    label = "faults_planted"

    def ready(self) -> None:
        DEFECTS[settings.PLANTED][0]()
