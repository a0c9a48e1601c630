from celery import shared_task

from apps.automation import schedules


@shared_task(name="automation.tick")  # type: ignore[untyped-decorator]
def tick() -> int:
    """Claims due times and starts what was claimed, also what a killed job left. It may run anywhere, twice.

    Returns the number of runs that were started.
    """
    schedules.claim_due()
    return schedules.start_waiting()
