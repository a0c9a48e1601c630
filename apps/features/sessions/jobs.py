from celery import shared_task

from apps.features.sessions import deletion


@shared_task(name="sessions.expire")  # type: ignore[untyped-decorator]
def expire_sessions() -> None:
    deletion.delete_expired_sessions()
