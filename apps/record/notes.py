"""Notes in a run: what came too late to change anything."""

import uuid

from django.utils import timezone

from apps.record.models import Run

MOST = 20


def leave_late(task_id: uuid.UUID, text: str) -> None:
    """Add a line to the task's last run."""
    last = Run.objects.filter(task=task_id).order_by("-turn").values_list("pk", flat=True).first()
    if last is not None:
        leave(last, text)


def leave(run_id: uuid.UUID, text: str, *, unless_queued: bool = False) -> None:
    """Add a line to the run's notes; the oldest of too many go."""
    run = Run.objects.filter(pk=run_id).only("notes", "state").first()
    if run is None or (unless_queued and run.state == Run.State.QUEUED):
        return
    run.notes = [*run.notes, {"at": timezone.now().isoformat(timespec="milliseconds"), "note": text}][-MOST:]
    run.save(update_fields=["notes"])
