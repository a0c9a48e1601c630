"""Makes changed limits count at once in the process that changes them."""

from typing import Any

from django.db.models.signals import post_delete, post_save

from parley.registry import ParleyApp


class LimitsConfig(ParleyApp):
    def ready(self) -> None:
        from django.db import transaction

        from apps.limits import current  # it needs the registry of apps
        from apps.limits.models import Limit

        def forget(**_: Any) -> None:
            current.forget()
            transaction.on_commit(current.forget)  # another thread may have read meanwhile

        for changed in (post_save, post_delete):
            changed.connect(forget, Limit, weak=False, dispatch_uid=f"{changed}{Limit}")
