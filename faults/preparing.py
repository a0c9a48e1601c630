"""Registers the load's agents and makes its tenants; prints them as JSON. Runs inside the installation."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import django
from django.apps import apps

if not apps.ready:
    django.setup()

from django.core.management import call_command
from django.test import Client

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from faults.agents import AGENTS

ATTEMPTS = 30_000  # more than workers are killed: repeatable work must complete
POISON_ATTEMPTS = 2


def main(tenants: list[str]) -> None:
    for slug, name in AGENTS.items():
        register_hosted(slug, f"faults.agents:{name}")
    Agent.objects.update(attempts=ATTEMPTS)
    Agent.objects.filter(slug="poison").update(attempts=POISON_ATTEMPTS)
    print(json.dumps({name: _tenant(f"{name}@faults.local") for name in tenants}))


def _tenant(email: str) -> dict[str, Any]:
    user, browser, printed = User.objects.create_user(email), Client(), io.StringIO()
    browser.force_login(user)
    call_command("create_api_key", email, stdout=printed)
    return {"user": user.pk, "session": browser.cookies["sessionid"].value, "key": printed.getvalue().strip()}


if __name__ == "__main__":
    main(sys.argv[1:])
