from typing import Any

from django.db import transaction
from django.db.models.signals import post_delete, post_save

from parley.registry import ParleyApp


class GuardrailsConfig(ParleyApp):
    verbose_name = "Guardrails"
    turn_guards = ["current.guard_for"]
    agent_parts = ["pages.agent_part"]
    before_erasure = ["decisions.forget_contexts"]
    personal_data = ["rails.personal_data"]
    periodic_jobs = {"guardrails.forget_decisions": ("KEEP_HOUSE_SECONDS", "decisions.sweep")}

    def ready(self) -> None:
        from apps.optional.guardrails import current
        from apps.optional.guardrails.models import Guardrail

        def forget(**_: Any) -> None:
            current.forget()
            transaction.on_commit(current.forget)  # another thread may have read meanwhile

        for changed in (post_save, post_delete):
            changed.connect(forget, Guardrail, weak=False, dispatch_uid=f"{changed}{Guardrail}")
