"""The page that runs a session again shows both answers."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine.accept import Receipt
from apps.features.sessions.commands import create_session

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_rerun_leads_to_its_comparison(ada_browser: Client, finished: Receipt, report: Agent) -> None:
    address = f"/sessions/{finished.context}/rerun"
    assert ada_browser.get(address).context["comparison"] is None
    there = ada_browser.post(address, {"agent": "report", "key": "k"})["Location"]
    [turn] = ada_browser.get(there).context["comparison"].turns
    assert turn.after is None
    assert ada_browser.get(there.replace("/rerun", "/comparison")).status_code == 200


def test_a_session_without_messages_says_why(ada: User, ada_browser: Client, echo: Agent) -> None:

    empty = create_session(ada.principal, echo).context
    refused = ada_browser.post(f"/sessions/{empty.pk}/rerun", {"key": "k"})
    assert (refused.status_code, "Send one first" in refused.text) == (409, True)
