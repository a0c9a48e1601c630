"""The page says in plain words whether a file matches its agent's signature."""

from __future__ import annotations

import pytest
from django.test import Client

from agentkit import Artifact as Made
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.signing import revoke_key
from apps.record.models import Artifact
from apps.web.sessions import artifacts
from tests.api.delivering import delivered
from tests.web import telling

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_page_says_who_signed_a_file_and_whether_that_holds(
    ada_browser: Client, ada: User, echo: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    echo.sign_artifacts = True
    echo.save()
    receipt = delivered(ada, echo, telling.said("Begin"), [Made([{"text": "hello"}], name="words", artifact_id="one")])

    def said(ending: str = "look") -> str:
        return ada_browser.get(f"/sessions/{receipt.context}/artifacts/{receipt.task}/one/{ending}").text

    row = Artifact.objects.get()
    for ending in ("look", "signature"):
        for detail in ("Signature valid", row.signature["agent"], row.signature["created"], row.digest):
            assert detail in said(ending)
    with monkeypatch.context() as patched:
        patched.setattr(artifacts, "VERIFIED_AT_ONCE", 4)
        assert "Signed, not verified yet" in said()
        assert "Signature valid" in said("signature")
    Artifact.objects.update(parts=[{"text": "hallo"}])
    for ending in ("look", "signature"):
        assert "Signature invalid" in said(ending)
        assert "Signature valid" not in said(ending)
    Artifact.objects.update(parts=row.parts)
    revoke_key(echo.signing_keys.get())
    assert "Signing key revoked" in said("signature")
    echo.signing_keys.all().delete()
    assert "Signed by an unknown key" in said("signature")
    Artifact.objects.update(signature={})
    assert "Not signed" in said()
