"""Keys that leaked are recognized without asking Parley, and revoked by whoever has their text."""

import io
import sys
import zlib

import pytest
from django.core.management import call_command

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.authentication import BadCredentials, api_key_principal
from apps.accounts.key_format import PATTERN, texts_of_keys
from apps.accounts.keys import revoke_leaked_keys, rotate_key
from apps.accounts.models import ApiKey

pytestmark = pytest.mark.django_db(transaction=True)  # a thread writes a key's last use

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def test_a_key_ends_with_the_checksum_that_is_documented(ada):
    for _ in range(20):
        _, text = ApiKey.issue(ada, "laptop")
        assert PATTERN.fullmatch(text)
        number = 0
        for digit in text[-6:]:
            number = number * 62 + BASE62.index(digit)
        assert number == zlib.crc32(text[:-6].encode())


def test_keys_are_found_in_any_text_and_what_only_looks_like_one_is_none(ada):
    _, text = ApiKey.issue(ada, "laptop")
    broken = text[:-1] + ("a" if text[-1] != "a" else "b")
    assert texts_of_keys(f'{{"key": "{text}"}} {broken} {text}x parley_0123456789ab_short') == [text]


def old_key(user) -> tuple[ApiKey, str]:
    """A key of an earlier release: without a checksum."""
    key, text = ApiKey.issue(user, "old")
    secret = text.split("_", 2)[2][:-6]
    ApiKey.objects.filter(pk=key.pk).update(digest=ApiKey.digest_of(secret))
    return key, text[:-6]


def test_a_key_without_a_checksum_goes_on_working_and_can_be_revoked_as_leaked(ada):
    _, text = old_key(ada)
    assert api_key_principal(f"Bearer {text}").user_id == ada.pk
    assert [*revoke_leaked_keys({f"see {text}": ""})] == [f"see {text}"]
    with pytest.raises(BadCredentials):
        api_key_principal(f"Bearer {text}")


def test_only_whole_keys_are_revoked_and_the_audit_says_where_they_were(ada, bob):
    leaked, text = ApiKey.issue(ada, "leaked")
    other, other_text = ApiKey.issue(bob, "other")
    forged = f"parley_{other.prefix}_{text.split('_', 2)[2]}"
    found = revoke_leaked_keys({text: "https://example.org/paste", forged: "", f"parley_{other.prefix}_": ""})
    assert found == {text: leaked}
    assert api_key_principal(f"Bearer {other_text}").user_id == bob.pk
    leaked.refresh_from_db()
    assert leaked.revoked_because == ApiKey.Reason.LEAKED
    entry = AuditEntry.objects.get(action=AuditAction.KEY_LEAKED)
    assert (entry.object_key, entry.details["source"]) == (str(leaked.pk), "https://example.org/paste")


def test_the_secret_before_a_rotation_ends_the_key_while_it_works(ada):
    key, old = ApiKey.issue(ada, "laptop")
    rotate_key(ada.principal, key.pk)
    assert [*revoke_leaked_keys({old: ""})] == [old]


def test_the_command_reads_any_text_and_prints_what_it_revoked(ada, monkeypatch, capsys):
    key, text = ApiKey.issue(ada, "leaked")
    kept, _ = ApiKey.issue(ada, "kept")
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"export KEY={text}\nnothing\n" * 3))
    call_command("revoke_leaked_keys")
    assert capsys.readouterr().out.split() == [str(key)]
    assert set(ApiKey.objects.filter(revoked_at=None)) == {kept}
