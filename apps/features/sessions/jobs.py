import asyncio
import logging
import uuid

from celery import current_app, shared_task
from kombu.exceptions import OperationalError

from apps.features.sessions import deletion, titles

log = logging.getLogger("parley.clearing")
OF_DELETED_ACCOUNTS = "sessions.of_deleted_accounts"


@shared_task(name="sessions.expire")  # type: ignore[untyped-decorator]
def expire_sessions() -> int:
    """Deletes sessions whose retention has ended."""
    return deletion.delete_expired_sessions()


@shared_task(name=OF_DELETED_ACCOUNTS)  # type: ignore[untyped-decorator]
def delete_sessions_of_deleted_accounts() -> int:
    """Deletes the sessions of people who deleted their account."""
    return deletion.delete_sessions_of_deleted_accounts()


def publish_deleted_account() -> None:
    """Have a worker delete the sessions of a deleted account now; otherwise the periodic job does."""
    try:
        current_app.send_task(OF_DELETED_ACCOUNTS)
    except (OperationalError, ConnectionError, OSError) as error:
        log.warning("the broker is away; a deleted account's sessions wait for the periodic job: %s", error)


@shared_task(name=titles.SUGGEST_TITLE)  # type: ignore[untyped-decorator]
def suggest_title(context_id: str) -> None:
    asyncio.run(titles.suggest_title(uuid.UUID(context_id)))
