"""How much of its limits a workspace, an API key or an agent uses now; and the notice when files are nearly full."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils import timezone

from apps.accounts.requests import quotas
from apps.engine.queue import runs_of
from apps.limits.current import NOTICE_SHARE, Holder, snapshot
from apps.limits.models import Kind, Limit
from apps.limits.notices import tell
from apps.record.content.blobs import used_bytes
from apps.record.execution import Run


@dataclass(frozen=True, slots=True)
class Use:
    """Of one limit."""

    kind: Kind
    limit: int
    used: int

    @property
    def is_near(self) -> bool:
        return self.used >= NOTICE_SHARE * self.limit

    @property
    def is_reached(self) -> bool:
        return self.used >= self.limit

    @property
    def title(self) -> str:
        return str(self.kind.label).capitalize()

    @property
    def words(self) -> str:
        return f"{self.used:,} of {self.limit:,}"


def uses_of(holder: Holder) -> list[Use]:
    """Of each of its limits. Streams are those of this process."""
    values = snapshot().of(holder)
    return [Use(kind, values[kind], _used(holder, kind)) for kind in Kind if kind in values]


def _used(holder: Holder, kind: Kind) -> int:
    match kind:
        case Kind.REQUESTS:
            return quotas.request_counter.count_of(str(holder))
        case Kind.STREAMS:
            return quotas.stream_counter.count_of(str(holder))
        case Kind.QUEUED:
            return runs_of(holder, Run.State.QUEUED).count()
        case Kind.RUNNING:
            return runs_of(holder, Run.State.RUNNING).exclude(priority=Run.Priority.CONTINUED).count()
        case Kind.STORAGE:
            return used_bytes(int(holder.key))


def watch() -> None:
    """Tells operators and the workspace's person once when files take 80 % of what they may."""
    for limit in Limit.objects.exclude(storage_bytes=None).select_related("workspace__personal_of"):
        use = Use(Kind.STORAGE, limit.storage_bytes or 0, used_bytes(limit.workspace_id))
        if use.is_near and limit.noticed_at is None:
            subject = f"Storage of {limit.workspace}: {NOTICE_SHARE:.0%} of the limit is used"
            text = f"Its files take {use.used:,} of {use.limit:,} bytes. Beyond that, files are refused."
            if tell(subject, text, limit.workspace):
                Limit.objects.filter(pk=limit.pk).update(noticed_at=timezone.now())
        elif not use.is_near and limit.noticed_at is not None:
            Limit.objects.filter(pk=limit.pk).update(noticed_at=None)
