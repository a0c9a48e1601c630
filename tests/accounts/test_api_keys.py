"""API keys are shown once, stored as digests, expire, are cheap to check, and end when they leak."""

import datetime
import io
import sys
import zlib

import pytest
from django.core.management import call_command
from django.utils import timezone

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.authentication import BadCredentials, api_key_principal
from apps.accounts.key_format import PATTERN, texts_of_keys
from apps.accounts.keys import revoke_leaked_keys, rotate_key
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import ANONYMOUS
from parley import db

pytestmark = pytest.mark.django_db(transaction=True)  # a thread writes a key's last use


def bearer(text: str) -> str:
    return f"Bearer {text}"


def test_key_speaks_for_its_user_in_their_workspace(ada):
    _, text = ApiKey.issue(ada, "laptop")
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert api_key_principal(f"{scheme} {text}").user_id == ada.pk
    principal = api_key_principal(bearer(text))
    assert (principal.user_id, principal.workspace_id) == (ada.pk, ada.personal_workspace.pk)
    assert principal.name == "Ada"


def test_the_text_of_a_key_is_kept_nowhere(ada):
    key, text = ApiKey.issue(ada, "laptop")
    secret = text.split("_", 2)[2]
    stored = ApiKey.objects.filter(pk=key.pk).values().get()
    assert not any(secret in str(value) for value in stored.values())
    assert str(key) == f"parley_{key.prefix}_…"


def test_headers_without_key_are_refused_not_anonymous(subtests):
    assert api_key_principal("") == ANONYMOUS
    keys = ("", " ", " x", " parley_", " parley__x", " é_ü_x")
    for header in ("Basic YTpi", "parley", *(f"Bearer{key}" for key in keys)):
        with subtests.test(header=header), pytest.raises(BadCredentials):
            api_key_principal(header)


def test_unknown_expired_and_revoked_keys_are_refused(ada, bob):
    guessed, _ = ApiKey.issue(ada, "laptop")
    old, old_text = ApiKey.issue(ada, "old", lifetime=datetime.timedelta(hours=1))
    lost, lost_text = ApiKey.issue(ada, "lost laptop")
    _, bobs = ApiKey.issue(bob, "laptop")
    for text in (old_text, lost_text, bobs):
        assert api_key_principal(bearer(text)).is_known
    ApiKey.objects.filter(pk=old.pk).update(expires_at=timezone.now() - datetime.timedelta(seconds=1))
    lost.revoke()
    User.objects.filter(pk=bob.pk).update(is_active=False)
    for text in (f"parley_{guessed.prefix}_guessed", old_text, lost_text, bobs):
        with pytest.raises(BadCredentials, match="unknown, expired or revoked"):
            api_key_principal(bearer(text))
    _, text = ApiKey.issue(ada, "laptop")
    assert api_key_principal(bearer(text)).user_id == ada.pk


def test_scopes_limit_what_a_key_may_do(ada):
    _, narrow = ApiKey.issue(ada, "narrow", scopes=["tasks:read"])
    _, wide = ApiKey.issue(ada, "wide")
    assert api_key_principal(bearer(narrow)).may("tasks:read")
    assert not api_key_principal(bearer(narrow)).may("tasks:write")
    assert api_key_principal(bearer(wide)).may("tasks:write")


def test_checking_a_key_costs_one_query(ada, django_assert_num_queries):
    _, text = ApiKey.issue(ada, "laptop")
    with django_assert_num_queries(1):
        api_key_principal(bearer(text))
    with django_assert_num_queries(0):
        api_key_principal("")
    with django_assert_num_queries(0), pytest.raises(BadCredentials):
        api_key_principal("Bearer nonsense")


def test_last_use_is_noted_once_a_minute(ada):
    key, text = ApiKey.issue(ada, "laptop")

    def noted():
        db.close()  # the thread that writes it has ended
        key.refresh_from_db()
        return key.last_used_at

    with pytest.raises(BadCredentials):
        api_key_principal(bearer(f"parley_{key.prefix}_guessed"))
    assert noted() is None
    api_key_principal(bearer(text))
    first = noted()
    assert timezone.now() - first < datetime.timedelta(minutes=1)
    api_key_principal(bearer(text))
    assert noted() == first
    ApiKey.objects.filter(pk=key.pk).update(last_used_at=first - 2 * ApiKey.TOUCH_AFTER)
    api_key_principal(bearer(text))
    assert noted() >= first


BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def test_key_ends_with_the_documented_checksum(ada):
    for _ in range(20):
        _, text = ApiKey.issue(ada, "laptop")
        assert PATTERN.fullmatch(text)
        number = 0
        for digit in text[-6:]:
            number = number * 62 + BASE62.index(digit)
        assert number == zlib.crc32(text[:-6].encode())


def test_keys_are_found_in_any_text(ada):
    _, text = ApiKey.issue(ada, "laptop")
    broken = text[:-1] + ("a" if text[-1] != "a" else "b")
    assert texts_of_keys(f'{{"key": "{text}"}} {broken} {text}x parley_0123456789ab_short') == [text]


def old_key(user) -> tuple[ApiKey, str]:
    """A key of an earlier release: without a checksum."""
    key, text = ApiKey.issue(user, "old")
    secret = text.split("_", 2)[2][:-6]
    ApiKey.objects.filter(pk=key.pk).update(digest=ApiKey.digest_of(secret))
    return key, text[:-6]


def test_older_key_without_checksum_works(ada):
    _, text = old_key(ada)
    assert api_key_principal(f"Bearer {text}").user_id == ada.pk
    assert [*revoke_leaked_keys({f"see {text}": ""})] == [f"see {text}"]
    with pytest.raises(BadCredentials):
        api_key_principal(f"Bearer {text}")


def test_only_whole_leaked_keys_are_revoked(ada, bob):
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


def test_leaked_previous_secret_ends_its_key(ada):
    key, old = ApiKey.issue(ada, "laptop")
    rotate_key(ada.principal, key.pk)
    assert [*revoke_leaked_keys({old: ""})] == [old]


def test_command_revokes_the_keys_in_a_text(ada, monkeypatch, capsys):
    key, text = ApiKey.issue(ada, "leaked")
    kept, _ = ApiKey.issue(ada, "kept")
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"export KEY={text}\nnothing\n" * 3))
    call_command("revoke_leaked_keys")
    assert capsys.readouterr().out.split() == [str(key)]
    assert set(ApiKey.objects.filter(revoked_at=None)) == {kept}
