"""Actions on rows: on one from its page, on chosen ones from a list, with a result for each row.

Up to AT_ONCE rows are worked off in the request, more by a Celery job in batches. The job can be killed at any time:
the sweep continues it when its lease has ended, and the row that had been started is marked, because what it does may
be done already. An action checks its permission when it begins and before each batch.
"""

from __future__ import annotations

import datetime
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from celery import current_app
from django.contrib.admin.models import CHANGE, LogEntry
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F, Model, Q, QuerySet
from kombu.exceptions import OperationalError

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.accounts.resources import Act, NotNeeded, Resource
from apps.operators.models import BulkAction, BulkRow
from apps.record.errors import Kind, Refusal
from db import sql

log = logging.getLogger("parley.operators")

AT_ONCE = 500  # rows of an action in the request
MOST_ROWS = 50_000
BATCH = 50  # rows between two looks at the stop button
LEASE = datetime.timedelta(seconds=60)
EXTEND_SECONDS = 10.0  # between extensions of the lease during a batch
KEPT = datetime.timedelta(days=30)
DELETED_AT_ONCE = 5
WORK = "operators.bulk"

State = BulkAction.State


@dataclass(frozen=True, slots=True)
class Doing:
    """Who acts. `again`: an earlier try at this row was interrupted. `key` and `before` are the same in both tries.

    `before` is what the action's `mark` said of the row before the first try.
    """

    operator: User
    key: uuid.UUID
    again: bool = False
    before: str = ""


@dataclass(frozen=True)
class RowAction:
    """What is done to one row.

    Attributes:
        act: does it, and returns what was done, as a sentence. Raises NotNeeded, Refusal or ValidationError.
        permission: what the operator needs, such as "record.change_task".
        mark: at most 64 characters that change when somebody else acts on the row, such as a fence.
        records: whether `act` writes to the audit itself.
    """

    key: str
    label: str
    model: type[Model]
    permission: str
    act: Callable[[Any, Doing], str]
    select_related: tuple[str, ...] = ()
    mark: Callable[[Any], str] = lambda row: ""
    records: bool = False

    def rows(self) -> QuerySet[Any]:
        rows = self.model._default_manager.all()
        return rows.select_related(*self.select_related) if self.select_related else rows


ACTIONS: dict[str, RowAction] = {}
"""By key, for the job. Admin's modules register theirs when they are loaded."""


def register(action: RowAction) -> RowAction:
    ACTIONS[action.key] = action
    return action


def register_act(resource: Resource[Any], act: Act[Any], permission: str, related: tuple[str, ...]) -> RowAction:
    """An act of a resource as operators do it."""

    def perform(row: Any, doing: Doing) -> str:
        if doing.again and not act.repeats:
            raise NotNeeded(f"It may be done already. See the {resource.noun}.")
        try:
            result = act.do(row, doing.operator.principal)
        except NotNeeded:
            if not doing.again:
                raise
            result = row
        task = getattr(result, "task_id", None)
        return act.said(result) + (f" It is task {task}." if task else "")

    return register(RowAction(f"{resource.noun}.{act.name}", act.label, resource.model, permission, perform, related))


@dataclass(frozen=True, slots=True)
class Result:
    outcome: BulkRow.Outcome
    note: str


def act(action: RowAction, row: Model, doing: Doing) -> Result:
    """Do it to one row, and write the audit and admin's log."""
    key = row.pk
    try:
        with_note = action.act(row, doing)
    except NotNeeded as skipped:
        return Result(BulkRow.Outcome.SKIPPED, str(skipped))
    except ValidationError as error:
        return Result(BulkRow.Outcome.FAILED, " ".join(error.messages))
    except Refusal as refusal:
        return Result(
            BulkRow.Outcome.SKIPPED if refusal.kind == Kind.CONFLICT else BulkRow.Outcome.FAILED, str(refusal)
        )
    except Exception:
        log.exception("%s of %s failed", action.key, row.pk)
        return Result(BulkRow.Outcome.FAILED, "Something went wrong on the server. Its log has the error.")
    row.pk = key  # a deletion takes it
    _note(action, row, doing.operator, f"{action.label}: {with_note}")
    return Result(BulkRow.Outcome.DONE, with_note)


def _note(action: RowAction, row: Model, operator: User, what: str) -> None:
    """In the audit and in admin's log, as a change by hand would be; a job has no request."""
    chosen = action.model._default_manager.filter(pk=row.pk)
    code = audit.ADMIN_ACTIONS.get(row._meta.label_lower, {}).get("changed", AuditAction.ADMIN_CHANGED)
    with transaction.atomic():
        if not action.records:
            audit.record(code, actor=operator, object=row, details={"note": what})
        LogEntry.objects.log_actions(operator.pk, chosen, CHANGE, what, single_object=True)


def begin(action: RowAction, operator: User, keys: Sequence[Any], chosen: str = "") -> BulkAction:
    """Record the action and its rows. Up to AT_ONCE rows are worked off here; more are sent to a worker."""
    with transaction.atomic():
        bulk = BulkAction.objects.create(
            action=action.key, label=action.label, operator=operator, chosen=chosen[:500], total=len(keys)
        )
        rows = (BulkRow(bulk=bulk, number=number, key=str(key)) for number, key in enumerate(keys, 1))
        BulkRow.objects.bulk_create(rows, batch_size=2_000)
    if len(keys) <= AT_ONCE:
        work_off(bulk.pk)
    else:
        publish(bulk.pk)
    bulk.refresh_from_db()
    return bulk


def publish(key: uuid.UUID) -> None:
    """Have a worker continue the action. If the broker is away, the sweep does it."""
    try:
        current_app.send_task(WORK, (str(key),))
    except (OperationalError, ConnectionError, OSError) as error:
        log.warning("the broker is away; bulk action %s waits for the sweep: %s", key, error)


def stop(bulk: BulkAction, why: str) -> bool:
    """Stop it before its next batch; False if it has ended."""
    running = BulkAction.objects.filter(pk=bulk.pk, state=State.RUNNING)
    return bool(running.update(state=State.STOPPED, why=why[:300], finished_at=sql.database_time()))


def work_off(key: uuid.UUID) -> None:
    """Work off the rows until the end, a stop, or another process."""
    fence = _claim(key)
    while fence is not None:
        bulk = BulkAction.objects.select_related("operator").get(pk=key)
        if why := _obstacle(bulk):
            stop(bulk, why)
            return
        if not _work_off_batch(bulk, fence):
            held = BulkAction.objects.filter(pk=key, fence=fence, state=State.RUNNING)
            held.update(state=State.DONE, finished_at=sql.database_time(), lease_until=None)
            return
        fence = _extend(key, fence)


def overdue() -> list[uuid.UUID]:
    """Actions that no process works on: their workers died, or their messages were lost."""
    now = sql.database_time()
    lost = Q(lease_until__lt=now) | Q(lease_until=None, created_at__lt=now - datetime.timedelta(seconds=5))
    return list(BulkAction.objects.filter(lost, state=State.RUNNING).values_list("pk", flat=True))


def delete_old() -> int:
    """Delete actions that ended more than KEPT ago, a few at a time; returns their number."""
    long_ago = sql.database_time() - KEPT
    old = BulkAction.objects.exclude(state=State.RUNNING).filter(created_at__lt=long_ago).order_by("created_at")
    keys = list(old.values_list("pk", flat=True)[:DELETED_AT_ONCE])
    BulkAction.objects.filter(pk__in=keys).delete()
    return len(keys)


def _claim(key: uuid.UUID) -> int | None:
    now = sql.database_time()
    free = BulkAction.objects.filter(Q(lease_until=None) | Q(lease_until__lt=now), pk=key, state=State.RUNNING)
    bulk = free.first()
    if bulk is None or not free.filter(fence=bulk.fence).update(fence=F("fence") + 1, lease_until=now + LEASE):
        return None
    return bulk.fence + 1


def _extend(key: uuid.UUID, fence: int) -> int | None:
    held = BulkAction.objects.filter(pk=key, fence=fence, state=State.RUNNING)
    return fence if held.update(lease_until=sql.database_time() + LEASE) else None


def _obstacle(bulk: BulkAction) -> str:
    """Why the action must not go on; "" if it may."""
    action = ACTIONS.get(bulk.action)
    if action is None:
        return "This version of Parley does not have the action."
    operator = bulk.operator
    if operator is None or not operator.may_operate(action.permission):
        return "Who began it no longer has the permission."
    return ""


def _work_off_batch(bulk: BulkAction, fence: int) -> bool:
    """Work off the next rows; False if none is left. Ends early if the lease was lost."""
    left = bulk.rows.filter(outcome__in=(BulkRow.Outcome.STARTED, BulkRow.Outcome.WAITING)).order_by("number")
    rows = list(left[:BATCH])
    action = ACTIONS[bulk.action]
    found = {str(one.pk): one for one in action.rows().filter(pk__in=[row.key for row in rows])}
    extend_at = time.monotonic() + EXTEND_SECONDS
    for row in rows:
        if time.monotonic() > extend_at:
            if _extend(bulk.pk, fence) is None:
                break
            extend_at = time.monotonic() + EXTEND_SECONDS
        # Both updates need the fence: another process may have claimed the action in the meantime.
        held = BulkRow.objects.filter(pk=row.pk, bulk__fence=fence)
        subject = found.get(row.key)
        again = row.outcome == BulkRow.Outcome.STARTED
        if subject is not None and not again:
            row.before = action.mark(subject)
        if not held.update(outcome=BulkRow.Outcome.STARTED, before=row.before):
            break
        result = Result(BulkRow.Outcome.SKIPPED, "It was deleted.")
        if subject is not None:
            assert bulk.operator is not None  # `_obstacle`
            result = act(action, subject, Doing(bulk.operator, uuid.uuid5(bulk.pk, row.key), again, row.before))
        held.update(outcome=result.outcome, note=result.note[:300])
    return bool(rows)


def summary(bulk: BulkAction) -> str:
    """Such as "3 done, 1 skipped"."""
    counts = bulk.counts()
    left = counts.get(BulkRow.Outcome.WAITING, 0) + counts.get(BulkRow.Outcome.STARTED, 0)
    outcomes = [
        (counts.get(one, 0), one.label.lower())
        for one in (BulkRow.Outcome.DONE, BulkRow.Outcome.SKIPPED, BulkRow.Outcome.FAILED)
    ]
    return ", ".join(f"{count:,} {word}" for count, word in [*outcomes, (left, "left")] if count) or "nothing to do"


def keys_of(rows: QuerySet[Any]) -> list[Any]:
    """The keys of chosen rows, in the order of their list; one more than MOST_ROWS if there are too many."""
    return list(rows.values_list("pk", flat=True)[: MOST_ROWS + 1])
