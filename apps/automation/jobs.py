import uuid

from celery import shared_task

from apps.automation import incoming, schedules


@shared_task(name="automation.tick")  # type: ignore[untyped-decorator]
def tick() -> int:
    """Claims due times and starts what was claimed, also what a killed job left. It may run anywhere, twice.

    Returns the number of runs and events that were started.
    """
    schedules.claim_due()
    return schedules.start_waiting() + incoming.start_waiting()


@shared_task(name=incoming.START_TASK)  # type: ignore[untyped-decorator]
def start_event(key: str) -> bool:
    """Starts the work of an event that came in. It may run twice."""
    return incoming.start_event(uuid.UUID(key))


@shared_task(name="automation.forget_events")  # type: ignore[untyped-decorator]
def forget_events() -> int:
    """Deletes old events of incoming webhooks. Returns their number."""
    return incoming.forget_events()


@shared_task(name="automation.prune_runs")  # type: ignore[untyped-decorator]
def prune_runs() -> int:
    """Deletes old runs of schedules from their history. Returns the number of runs that it deleted."""
    return schedules.prune_runs()
