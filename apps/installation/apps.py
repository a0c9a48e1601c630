"""What operators set while Parley runs: language models, private addresses, and how far its first steps are."""

from typing import Any

from django.db.models.signals import post_delete, post_save

from parley.registry import ParleyApp


class InstallationConfig(ParleyApp):
    periodic_jobs = {"installation.note_settings": ("KEEP_HOUSE_SECONDS", "jobs.note_settings")}

    def ready(self) -> None:
        from django.core import checks
        from django.db import transaction

        from apps.installation import current, safety  # it needs the registry of apps
        from apps.installation.models import ModelConnection, NetworkAllowance, Operation

        def forget(**_: Any) -> None:
            current.forget()
            transaction.on_commit(current.forget)  # another thread may have read meanwhile

        for model in (ModelConnection, NetworkAllowance, Operation):
            for changed in (post_save, post_delete):
                changed.connect(forget, model, weak=False, dispatch_uid=f"{changed}{model}")
        checks.register(safety.check_deployment, checks.Tags.security, deploy=True)
