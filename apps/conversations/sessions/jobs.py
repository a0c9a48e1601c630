import asyncio
import uuid

from celery import shared_task

from apps.conversations.sessions import titles


@shared_task(name=titles.SUGGEST_TITLE)  # type: ignore[untyped-decorator]
def suggest_title(context_id: str) -> None:
    asyncio.run(titles.suggest_title(uuid.UUID(context_id)))
