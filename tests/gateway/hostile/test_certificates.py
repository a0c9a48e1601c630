"""An agent is called by TLS as long as its certificate is good for its name, and told apart where it is not."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from apps.conversations.lifecycle import TaskState
from outbound import exchanges
from tests.gateway.conversing import Talk, delivered, remote_agent, words
from tests.gateway.hostile.ordeals import WELL
from tests.gateway.hostile.villain import villain
from tests.outbound.test_exchange import certificate

pytestmark = pytest.mark.django_db(transaction=True)

Showing = Callable[..., tuple[ssl.SSLContext, str]]


@pytest.fixture
def showing(tmp_path: Path) -> Showing:
    """A context of a server with a certificate for these names, and the certificate."""

    def show(*names: str, context: ssl.SSLContext | None = None) -> tuple[ssl.SSLContext, str]:
        built, key = certificate(*names)
        pem = built.public_bytes(Encoding.PEM)
        (tmp_path / "pem").write_bytes(pem + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "pem")
        return context, pem.decode()

    return show


@pytest.fixture
def trust(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes a certificate one that the system trusts."""

    def good(pem: str) -> None:
        monkeypatch.setattr(exchanges, "_system_trust", lambda: ssl.create_default_context(cadata=pem))

    return good


async def test_a_good_certificate_is_taken_and_another_that_comes_later_is_not(worker, ada, showing, trust):
    context, pem = showing("127.0.0.1")
    trust(pem)
    async with villain(context) as bad:
        talk = Talk(ada, await sync_to_async(remote_agent)(bad.card))
        good = await talk.ask()
        assert (good.state, await sync_to_async(delivered)(good)) == (TaskState.COMPLETED, {"answer": WELL})
        calls = len(bad.calls)
        showing("127.0.0.1", context=context)
        changed = await talk.ask()
        assert changed.state == TaskState.FAILED
        assert "its certificate is not to be trusted" in words(changed)
        assert len(bad.calls) == calls


@pytest.mark.parametrize("names", [["other.example.com"], ["127.0.0.2"]])
async def test_a_certificate_for_another_name_is_refused(worker, ada, showing, trust, names):
    context, pem = showing(*names)
    trust(pem)
    async with villain(context) as bad:
        refused = await Talk(ada, await sync_to_async(remote_agent)(bad.card)).ask()
        assert refused.state == TaskState.FAILED
        assert "its certificate is not to be trusted" in words(refused)
        assert bad.calls == []
