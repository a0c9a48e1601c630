"""Whether a file is what its agent signed, said on the page in words that people know."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

import pytest
from django.test import Client

from agentkit import Artifact as Made
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.signing_keys import revoke
from apps.conversations.models import Artifact
from apps.web import artifacts
from tests.api.delivering import delivered
from tests.web import telling

pytestmark = pytest.mark.django_db(transaction=True)

Badge = Callable[[str], str]


@pytest.fixture
def receipt(ada: User, echo: Agent) -> telling.Receipt:
    echo.sign_artifacts = True
    echo.save()
    return delivered(ada, echo, telling.said("Begin"), [Made([{"text": "hello"}], name="words", artifact_id="one")])


@pytest.fixture
def badge(ada_browser: Client, receipt: telling.Receipt) -> Badge:
    """What is said of the signature: at a look, or once it is asked for."""

    def said(ending: str = "look") -> str:
        answer = ada_browser.get(f"/sessions/{receipt.context}/artifacts/{receipt.task}/one/{ending}")
        assert answer.status_code == 200
        [shown] = re.findall(r'<div class="signature">.*?</div>', answer.text, re.DOTALL)
        return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", shown)))

    return said


@pytest.mark.parametrize("ending", ["look", "signature"])
def test_a_signature_that_holds_says_who_signed_what_when_and_by_which_key(badge: Badge, ending: str) -> None:
    row = Artifact.objects.get()
    said = badge(ending)
    assert "Signature holds · Echo" in said
    assert "unchanged" in said
    for detail in (row.signature["agent"], row.signature["created"], row.digest, "EdDSA", "Verify again"):
        assert detail in said


@pytest.mark.parametrize("change", [{"parts": [{"text": "hallo"}]}, {"name": "other"}])
def test_what_was_changed_is_broken(badge: Badge, change: telling.JSON) -> None:
    Artifact.objects.update(**change)
    assert "Signature broken" in badge("signature")
    assert "Do not rely on it." in badge("look")
    assert "Signature holds" not in badge("look")


def test_a_key_that_was_withdrawn_is_named(badge: Badge, echo: Agent) -> None:
    revoke(echo.signing_keys.get())
    assert "Signing key withdrawn" in badge("signature")
    echo.signing_keys.all().delete()
    assert "Signed by an unknown key" in badge("signature")


def test_without_a_signature_it_says_so(badge: Badge) -> None:
    Artifact.objects.update(signature={})
    assert badge("look").strip() == "Not signed"


def test_a_large_file_is_verified_when_that_is_asked_for(badge: Badge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "VERIFIED_AT_ONCE", 4)
    assert "Signed, not verified yet" in badge("look")
    assert "Signature holds" in badge("signature")
