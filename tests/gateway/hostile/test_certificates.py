"""An agent is called by TLS as long as its certificate is good for its name, and people are told where it is not."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async

from apps.conversations.lifecycle import TaskState
from outbound import exchanges
from tests.gateway.conversing import Talk, delivered, remote_agent, words
from tests.gateway.hostile.ordeals import WELL
from tests.gateway.hostile.villain import villain
from tests.outbound.certificates import tls

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., ssl.SSLContext]:
    """The context of a server that shows a certificate for these names, which the system trusts from then on."""

    def show(*names: str) -> ssl.SSLContext:
        theirs, ours = tls(tmp_path, *names)
        monkeypatch.setattr(exchanges, "_system_trust", lambda: ours)
        return theirs

    return show


async def test_a_good_certificate_is_taken_and_another_that_comes_later_is_not(worker, ada, trusted, tmp_path):
    theirs = trusted("127.0.0.1")
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


@pytest.mark.parametrize("name", ["other.example.com", "127.0.0.2"])
async def test_a_certificate_for_another_name_is_refused(worker, ada, trusted, name):
    async with villain(trusted(name)) as bad:
        refused = await Talk(ada, await sync_to_async(remote_agent)(bad.card)).ask()
        assert refused.state == TaskState.FAILED
        assert "its certificate is not to be trusted" in words(refused)
        assert bad.calls == []
