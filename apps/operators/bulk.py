"""Actions on rows: on one from its page, on chosen ones from a list, with a result for each row.

`choose` notes the rows, `start` begins: so an operator is asked first, and exactly the rows are acted on that they saw.
Up to AT_ONCE rows are worked off in the request for SECONDS_AT_ONCE, more by a Celery job in batches. The job can be
killed at any time: the sweep continues it when its lease has ended, and the row that had been started is marked,
because what it does may be done already. An action checks its permission when it begins and before each batch.
"""

from __future__ import annotations

import datetime
import logging
import math
import re
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.contrib.admin import autodiscover
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Model, Q, QuerySet

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.accounts.people.erasure import Person
from apps.accounts.resources import Act, NotNeeded, Resource
from apps.operators.models import MAX_CHOSEN, BulkAction, BulkRow, SavedFilter
from apps.record.errors import Kind, Refusal
from parley.db import sql
from parley.work import WorkList

log = logging.getLogger("parley.operators")

AT_ONCE = 500  # rows of an action in the request
SECONDS_AT_ONCE = 10.0  # afterwards a job goes on
MOST_ROWS = 50_000
BATCH = 50  # rows between two looks at the stop button
LEASE = datetime.timedelta(seconds=60)
EXTEND_SECONDS = 10.0  # between extensions of the lease during a batch
KEPT = datetime.timedelta(days=30)
ASKED_FOR = datetime.timedelta(days=1)  # a question stays
DELETED_AT_ONCE = 5

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
        deferred: columns not to load.
        question, effect: what a row's page asks before, and what follows. Lists ask with `effect`, too.
        icon: of its button.
        is_offered: whether a row's page has the button.
    """

    key: str
    label: str
    model: type[Model]
    permission: str
    act: Callable[[Any, Doing], str]
    select_related: tuple[str, ...] = ()
    mark: Callable[[Any], str] = lambda row: ""
    records: bool = False
    deferred: tuple[str, ...] = ()
    question: str = ""
    effect: str = ""
    icon: str = ""
    is_offered: Callable[[Any], bool] = lambda row: True

    @property
    def name(self) -> str:
        """In addresses, such as "run-again"."""
        return self.key.partition(".")[2]

    def rows(self) -> QuerySet[Any]:
        rows = self.model._default_manager.defer(*self.deferred)
        return rows.select_related(*self.select_related) if self.select_related else rows


ACTIONS: dict[str, RowAction] = {}
"""By key, for the job. Admin's modules register theirs when they are loaded."""


def register(action: RowAction) -> RowAction:
    ACTIONS[action.key] = action
    return action


def register_act(resource: Resource[Any], act: Act[Any], permission: str, **options: Any) -> RowAction:
    """An act of a resource as operators do it. `options`: attributes of the action."""

    def perform(row: Any, doing: Doing) -> str:
        if doing.again and not act.repeats:
            raise NotNeeded(f"It may be done already. See the {resource.noun}.")
        try:
            result = act.do(row, doing.operator.principal)
        except NotNeeded:
            if not doing.again:
                raise
            return "The first try has done it."
        task = getattr(result, "task_id", None)
        return act.said(result) + (f" It is task {task}." if task else "")

    shown: dict[str, Any] = {name: getattr(act, name) for name in ("icon", "is_offered", "records")}
    shown["effect"] = act.warning
    shown["question"] = re.sub(r"\ban? ", "this ", act.summary, count=1) + "?"
    key = f"{resource.noun}.{act.name}"
    return register(RowAction(key, act.label, resource.model, permission, perform, **shown, **options))


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
    code = audit.ADMIN_ACTIONS.get(row._meta.label_lower, {}).get("changed", AuditAction.ADMIN_CHANGED)
    subject, workspace = audit.row_subject(row), getattr(row, "workspace_id", None)
    with transaction.atomic():
        if not action.records:
            audit.record(code, actor=operator, object=subject, workspace=workspace, details={"note": what})
        LogEntry.objects.create(
            user=operator,
            content_type=ContentType.objects.get_for_model(row, for_concrete_model=False),
            object_id=subject.key,
            object_repr=subject.label[:200],
            action_flag=CHANGE,
            change_message=what,
        )


def choose(action: RowAction, operator: User, keys: Sequence[Any], chosen: str = "") -> BulkAction:
    """Note the action and its rows. Nothing is done to them until `start`.

    `chosen` is the list's query string. If it is too long, its last parameters are left out.
    """
    if len(chosen) > MAX_CHOSEN:
        chosen = chosen[: MAX_CHOSEN + 1].rpartition("&")[0]
    with transaction.atomic():
        bulk = BulkAction.objects.create(
            action=action.key, label=action.label, operator=operator, chosen=chosen, total=len(keys),
            state=State.ASKED,
        )  # fmt: skip
        rows = (BulkRow(bulk=bulk, number=number, key=str(key)) for number, key in enumerate(keys, 1))
        BulkRow.objects.bulk_create(rows, batch_size=2_000)
    return bulk


def start(bulk: BulkAction, seconds: float = SECONDS_AT_ONCE) -> bool:
    """Do it: up to AT_ONCE rows here, for so many seconds, and the others by a worker.

    False if it was started or given up before.
    """
    until = time.monotonic() + seconds
    with transaction.atomic():
        started = BulkAction.objects.filter(pk=bulk.pk, state=State.ASKED).update(state=State.RUNNING)
        # Before the commit, so that no sweep is faster.
        claimed = _claim(bulk.pk) if started and bulk.total <= AT_ONCE else []
    for one in claimed:
        _work_off(one, until)
    if started and bulk.total > AT_ONCE:
        BULK_ACTIONS.publish(bulk.pk)
    bulk.refresh_from_db()
    return bool(started)


def begin(action: RowAction, operator: User, keys: Sequence[Any]) -> BulkAction:
    """Without a question, up to AT_ONCE rows to their end."""
    bulk = choose(action, operator, keys)
    start(bulk, math.inf)
    return bulk


def give_up(bulk: BulkAction) -> bool:
    """Forget what was asked; False if it was started."""
    return bool(BulkAction.objects.filter(pk=bulk.pk, state=State.ASKED).delete()[0])


def stop(bulk: BulkAction, why: str) -> bool:
    """Stop it before its next batch; False if it has ended."""
    running = BulkAction.objects.filter(pk=bulk.pk, state=State.RUNNING)
    return bool(running.update(state=State.STOPPED, why=why[:300], finished_at=sql.database_time()))


def work_off(key: uuid.UUID) -> None:
    """Works off the rows that an operator chose, until the end, a stop, or another process."""
    for bulk in _claim(key):
        _work_off(bulk)


def _claim(key: uuid.UUID) -> list[BulkAction]:
    return BulkAction.objects.select_related("operator").filter(pk=key).claim(LEASE)


def _work_off(bulk: BulkAction, until: float = math.inf) -> None:
    """`until`: by the monotonic clock. Afterwards a job goes on."""
    autodiscover()  # admin's pages register the actions
    while _work_off_batch(bulk, until):
        if time.monotonic() > until:
            bulk.release()
            BULK_ACTIONS.publish(bulk.pk)
            return
        if not bulk.extend(LEASE):
            return
        # They may have lost the permission.
        bulk.operator = BulkAction.objects.select_related("operator").get(pk=bulk.pk).operator
    bulk.release(state=State.DONE, finished_at=sql.database_time())


BULK_ACTIONS = WorkList("bulk_actions", "operators.bulk", work_off, BulkAction)


def delete_old() -> int:
    """Deletes actions on many rows that ended a month ago, and yesterday's questions, a few at a time."""
    now = sql.database_time()
    is_old = Q(created_at__lt=now - KEPT) | Q(created_at__lt=now - ASKED_FOR, state=State.ASKED)
    old = BulkAction.objects.exclude(state=State.RUNNING).filter(is_old).order_by("created_at")
    return sql.delete_in_batches(old, DELETED_AT_ONCE)


def forget_person(person: Person) -> None:
    """Take a person out of what operators filtered by (`account_erasers`)."""
    written = {*person.addresses, *map(quote, person.addresses)}
    named = audit.pattern_of(written)
    for address in written:
        filters = SavedFilter.objects.filter(query__icontains=address)
        SavedFilter.objects.filter(pk__in=[one.pk for one in filters if named.search(one.query)]).delete()
        actions = BulkAction.objects.filter(chosen__icontains=address)
        BulkAction.objects.filter(pk__in=[one.pk for one in actions if named.search(one.chosen)]).update(chosen="")
    person.rename_in(BulkAction.objects.all(), "why")
    person.rename_in(BulkRow.objects.all(), "note")


def _obstacle(bulk: BulkAction) -> str:
    """Why the action must not go on; "" if it may."""
    action = ACTIONS.get(bulk.action)
    if action is None:
        return "This version of Parley does not have the action."
    operator = bulk.operator
    if operator is None or not operator.may_operate(action.permission):
        return "Who began it no longer has the permission."
    return ""


def _work_off_batch(bulk: BulkAction, until: float) -> bool:
    """Work off the next rows; False if none is left or it must not. Ends early by `until` or without the lease."""
    if why := _obstacle(bulk):
        return not stop(bulk, why)
    left = bulk.rows.filter(outcome__in=(BulkRow.Outcome.STARTED, BulkRow.Outcome.WAITING)).order_by("number")
    rows = list(left[:BATCH])
    action = ACTIONS[bulk.action]
    found = {str(one.pk): one for one in action.rows().filter(pk__in=[row.key for row in rows])}
    extend_at = time.monotonic() + EXTEND_SECONDS
    for row in rows:
        if time.monotonic() > until:
            break
        if time.monotonic() > extend_at:
            if not bulk.extend(LEASE):
                break
            extend_at = time.monotonic() + EXTEND_SECONDS
        # Both updates need the fence: another process may have claimed the action in the meantime.
        held = BulkRow.objects.filter(pk=row.pk, bulk__fence=bulk.fence)
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
