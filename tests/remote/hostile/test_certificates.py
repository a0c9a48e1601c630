"""TLS calls need a valid certificate for the agent's name."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async

from apps.record.models import TaskState
from outbound import exchanges
from tests.outbound.certificates import tls
from tests.remote.conversing import Talk, delivered, remote_agent, words
from tests.remote.hostile.ordeals import WELL
from tests.remote.hostile.villain import villain

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_good_certificate_is_taken_and_another_that_comes_later_is_not(worker, ada, monkeypatch, tmp_path):
    theirs, ours = tls(tmp_path, "127.0.0.1")
    monkeypatch.setattr(exchanges, "_system_trust", lambda: ours)
    async with villain(theirs) as bad:
        talk = Talk(ada, await sync_to_async(remote_agent)(bad.card))
        good = await talk.ask()
        assert (good.state, await sync_to_async(delivered)(good)) == (TaskState.COMPLETED, {"answer": WELL})
        calls = len(bad.calls)
        tls(tmp_path, "127.0.0.1")  # another key, which nobody trusts
        theirs.load_cert_chain(tmp_path / "pem")
        changed = await talk.ask()
        assert changed.state == TaskState.FAILED
        assert "its certificate is not to be trusted" in words(changed)
        assert len(bad.calls) == calls
