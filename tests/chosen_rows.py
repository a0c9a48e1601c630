"""Acts of operators on rows that they choose in a list."""

from __future__ import annotations

from typing import Any

from django.db.models import Model
from django.test import Client
from django.urls import reverse

from apps.operators.models import BulkAction
from parley.faces.cells import list_url


def choose(client: Client, model: type[Model], action: str, *rows: Model, across: bool = False) -> Any:
    """The page that asks whether to do it; the list if it was refused."""
    chosen: dict[str, Any] = {"action": action, "_selected_action": [str(row.pk) for row in rows]}
    chosen |= {"select_across": "1", "index": "0"} if across else {}
    return client.post(list_url(model), chosen, follow=True)


def answer(client: Client, verb: str) -> Any:
    """What follows the answer `start` or `give_up` to the newest question."""
    asked = BulkAction.objects.latest("created_at")
    return client.post(reverse(f"admin:operators_bulkaction_{verb}", args=[asked.pk]), follow=True)


def act(client: Client, model: type[Model], action: str, *rows: Model, across: bool = False) -> Any:
    """The page that follows the act, or its refusal."""
    page = choose(client, model, action, *rows, across=across)
    return answer(client, "start") if page.context and "question" in page.context else page
