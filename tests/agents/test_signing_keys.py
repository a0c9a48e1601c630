"""An agent has one signing key; retired keys stay trusted, revoked ones do not."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, connections, transaction
from django.urls import reverse

from apps.agents.identities import identity, signing
from apps.agents.identities.signing import revoke_key, rotate_key, signer_of
from apps.agents.models import SigningKey

pytestmark = pytest.mark.django_db(transaction=True)

PAYLOAD = b"{}"


def test_a_key_is_made_when_first_needed(echo, django_assert_num_queries):
    assert not SigningKey.objects.exists()
    signer = signer_of(echo)
    key = SigningKey.objects.get()
    assert (key.kid, key.agent, key.algorithm) == (signer.kid, echo, "EdDSA")
    assert "d" not in key.public
    signing.verify(signer.sign(PAYLOAD), PAYLOAD, key.public, key.algorithm)
    assert signer_of(None).kid != signer.kid
    with django_assert_num_queries(0):
        signer_of(echo).sign(PAYLOAD)
    secret = json.loads(SigningKey.objects.get(kid=signer_of(echo).kid).private)["d"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT private, public FROM agents_signingkey")
        assert secret not in str(cursor.fetchall())


def test_a_key_rotated_elsewhere_is_soon_replaced(echo, monkeypatch):
    before = signer_of(echo)
    monkeypatch.setattr(signing, "clear_signers", lambda: None)
    after = rotate_key(echo)
    assert signer_of(echo).kid == before.kid
    now = signing.time.monotonic()
    monkeypatch.setattr(signing.time, "monotonic", lambda: now + signing.SIGNER_CACHE_SECONDS + 1)
    assert signer_of(echo).kid == after.kid


def test_rotation_erases_the_retired_private_key(echo):
    signature, old = signer_of(echo).sign(PAYLOAD), SigningKey.objects.get()
    new = rotate_key(echo, "ES256")
    old.refresh_from_db()
    assert old.retired_at is not None
    assert old.private == ""
    assert signer_of(echo).kid == new.kid != old.kid
    signing.verify(signature, PAYLOAD, old.public, old.algorithm)
    published = {key["kid"]: key for key in identity.key_set()["keys"]}
    assert set(published) == {old.kid, new.kid}
    assert set(published[old.kid]) == {"kty", "crv", "x", "kid", "alg", "use"}
    assert set(published[new.kid]) == {"kty", "crv", "x", "y", "kid", "alg", "use"}
    assert all(key["use"] == "sig" and key["kid"] == signing.thumbprint(key) for key in published.values())


def test_a_revoked_key_is_published_nowhere(echo):
    signer_of(echo)
    revoke_key(old := SigningKey.objects.get())
    assert identity.key_set() == {"keys": []}
    assert identity.did_document(echo)["verificationMethod"] == []
    assert signer_of(echo).kid != old.kid
    retired = rotate_key(echo)
    revoke_key(SigningKey.objects.filter(agent=echo, revoked_at=None).exclude(pk=retired.pk).get())
    assert [key["kid"] for key in identity.key_set()["keys"]] == [retired.kid]


@pytest.mark.services("the database itself refuses a second key")
def test_two_keys_never_sign_for_one_owner(echo):
    for owner in (echo, None):
        signer_of(owner)
        with pytest.raises(IntegrityError), transaction.atomic():
            SigningKey.objects.create(kid=f"another of {owner}", agent=owner, public={}, private="x")
    SigningKey.objects.create(kid="a retired one", agent=echo, public={}, retired_at="2026-01-01T00:00Z")


@pytest.mark.services("many transactions make the first key")
def test_a_first_key_needed_by_many_is_one(echo):
    def kid(_):
        signing.clear_signers()
        try:
            return signer_of(echo).kid
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(kid, range(8)))) == 1


def test_a_command_rotates_and_revokes(echo, capsys):
    old = signer_of(echo).kid
    call_command("rotate_signing_key", "echo")
    new = capsys.readouterr().out.strip()
    assert signer_of(echo).kid == new != old
    call_command("rotate_signing_key", "echo", "--revoke", "--algorithm", "ES256")
    newest = capsys.readouterr().out.strip()
    assert {key["kid"] for key in identity.key_set()["keys"]} == {old, newest}
    call_command("rotate_signing_key", "--platform")
    assert signer_of(None).kid == capsys.readouterr().out.strip()
    before = SigningKey.objects.count()
    for words in [["nobody"], [], ["echo", "--platform"], ["echo", "--algorithm", "RS256"]]:
        with pytest.raises(CommandError):
            call_command("rotate_signing_key", *words)
        assert SigningKey.objects.count() == before, words


def test_operators_see_no_secret_of_a_key(admin_client, echo, settings):
    signer_of(echo)
    key = SigningKey.objects.get(agent=echo)
    secret = json.loads(key.private)["d"]
    settings.MASTER_KEY = "A" * 43  # pages open, though nothing can be decrypted
    page = admin_client.get(reverse("admin:agents_signingkey_change", args=[key.pk]))
    for answer in (page, admin_client.get(reverse("admin:agents_signingkey_changelist"))):
        assert key.kid in answer.text
        assert secret not in answer.text
