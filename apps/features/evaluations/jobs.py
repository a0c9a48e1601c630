from celery import shared_task

from apps.features.evaluations import evaluating

GO_ON = "evaluations.go_on"


@shared_task(name=GO_ON)  # type: ignore[untyped-decorator]
def go_on() -> None:
    """Starts evaluations of new versions, and moves on those that run."""
    evaluating.start_for_new_versions()
    evaluating.go_on()
