"""People and keys make, change and revoke keys within what they may do themselves."""

import datetime
import io
import sys
import zlib

import pytest
from django.core.management import call_command
from django.test import override_settings
from django.utils import timezone

from apps.accounts import keys
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.keys import REVOKE, KeyRefused, make_key, revoke_leaked_keys, rotate_key
from apps.accounts.models import ApiKey, User, Workspace
from apps.accounts.principals import ANONYMOUS, KEYS, READ, WRITE, MissingScope, Principal
from apps.accounts.requests.authentication import BadCredentials, api_key_principal
from apps.accounts.requests.quotas import QuotaExceeded
from apps.accounts.resources import NotNeeded
from apps.accounts.secrets.key_format import PATTERN, texts_of_keys
from parley import db

pytestmark = pytest.mark.django_db(transaction=True)  # a thread writes a key's last use


def test_key_never_exceeds_its_maker(ada, bob, subtests):
    reader = Principal(ada.pk, ada.personal_workspace.pk, name="Ada", scopes=frozenset([READ]))
    wrong = {"nothing": (ada.principal, ada, []), "unknown": (ada.principal, ada, ["root"])}
    wrong |= {"more than the maker": (reader, ada, [READ, WRITE]), "somebody else's": (ada.principal, bob, [READ])}
    for name, (maker, user, scopes) in wrong.items():
        with subtests.test(name), pytest.raises(KeyRefused):
            make_key(maker, user, "laptop", scopes)
    assert not ApiKey.objects.exists()
    assert make_key(reader, ada, "laptop", [READ])[0].scopes == [READ]


def test_making_and_revoking_are_audited_once(ada):
    key, _ = make_key(ada.principal, ada, "laptop", [READ])
    REVOKE.perform(ada.principal, key)
    with pytest.raises(NotNeeded):
        REVOKE.perform(ada.principal, key)
    entries = AuditEntry.objects.order_by("pk").values_list("action", "actor_name", "object_key")
    acts = (AuditAction.KEY_CREATED, AuditAction.KEY_REVOKED)
    assert list(entries) == [(action, ada.email, str(key.pk)) for action in acts]


def test_a_person_makes_only_so_many_keys(ada, bob, monkeypatch):
    with override_settings(KEY_CHANGES_PER_MINUTE=2):
        for _ in range(2):
            make_key(ada.principal, ada, "laptop", [READ])
        with pytest.raises(QuotaExceeded):
            make_key(ada.principal, ada, "laptop", [READ])
        make_key(bob.principal, bob, "laptop", [READ])
    monkeypatch.setattr(keys, "MOST_KEYS", 2)
    with pytest.raises(KeyRefused):
        make_key(ada.principal, ada, "laptop", [READ])
    ApiKey.objects.update(expires_at=timezone.now())
    assert make_key(ada.principal, ada, "laptop", [READ])


DAY = datetime.timedelta(days=1)


def caller(text):
    return api_key_principal(f"Bearer {text}")


def is_accepted(text):
    try:
        return caller(text).is_known
    except BadCredentials:
        return False


@pytest.fixture
def narrow(ada):
    """A key that makes keys, for one agent and ten days."""
    key, text = make_key(ada.principal, ada, "narrow", [READ, KEYS], 10 * DAY, ["echo"])
    return key, caller(text)


WIDER = {
    "another scope": ([READ, WRITE], DAY, ["echo"]),
    "one agent more": ([READ], DAY, ["echo", "countdown"]),
    "all agents": ([READ], DAY, []),
    "a longer life": ([READ], 11 * DAY, ["echo"]),
    "life for ever": ([READ], None, ["echo"]),
}


@pytest.mark.parametrize("wanted", WIDER.values(), ids=WIDER)
def test_a_key_makes_and_changes_no_wider_key(ada, narrow, wanted):
    scopes, lifetime, agents = wanted
    with pytest.raises(KeyRefused):
        make_key(narrow[1], ada, "wider", scopes, lifetime, agents)
    assert ApiKey.objects.count() == 1
    wider, text = make_key(ada.principal, ada, "wider", scopes, lifetime, agents)
    for act in (lambda: rotate_key(narrow[1], wider.pk), lambda: REVOKE.perform(narrow[1], wider)):
        with pytest.raises(KeyRefused):
            act()
    assert is_accepted(text)


def test_key_makes_narrower_key_in_its_workspace(ada, narrow):
    elsewhere = Workspace.objects.create(name="elsewhere")
    ApiKey.objects.filter(pk=narrow[0].pk).update(workspace=elsewhere)
    narrow[0].refresh_from_db()
    made, _ = make_key(narrow[0].principal, ada, "made", [READ, KEYS], 9 * DAY, ["echo"])
    assert (made.scopes, made.agents, made.made_by, made.workspace) == ([READ, KEYS], ["echo"], narrow[0], elsewhere)


def test_key_without_the_scope_changes_no_key(ada):
    other, _ = make_key(ada.principal, ada, "other", [READ])
    reader = caller(make_key(ada.principal, ada, "reader", [READ, WRITE])[1])
    acts = (
        lambda: make_key(reader, ada, "made", [READ]),
        lambda: rotate_key(reader, other.pk),
        lambda: REVOKE.perform(reader, other),
    )
    for act in acts:
        with pytest.raises((KeyRefused, MissingScope)):
            act()


def test_key_revoked_meanwhile_makes_no_key(ada, narrow):
    narrow[0].revoke()
    with pytest.raises(KeyRefused):
        make_key(narrow[1], ada, "made", [READ], DAY, ["echo"])


def test_revoking_a_key_ends_those_that_it_made(ada, narrow):
    made, text = make_key(narrow[1], ada, "made", [READ, KEYS], DAY, ["echo"])
    _, second = make_key(caller(text), ada, "made by made", [READ], DAY / 2, ["echo"])
    _, other = make_key(ada.principal, ada, "other", [READ])
    REVOKE.perform(ada.principal, narrow[0])
    assert (is_accepted(text), is_accepted(second), is_accepted(other)) == (False, False, True)
    made.refresh_from_db()
    assert made.revoked_because == ApiKey.Reason.MAKER
    assert AuditEntry.objects.filter(action=AuditAction.KEY_REVOKED).count() == 3


def test_rotated_secret_works_for_the_grace_period(ada):
    key, old = make_key(ada.principal, ada, "laptop", [READ])
    _, new = rotate_key(ada.principal, key.pk, datetime.timedelta(hours=1))
    assert (is_accepted(old), is_accepted(new)) == (True, True)
    ApiKey.objects.update(previous_until=timezone.now())
    assert (is_accepted(old), is_accepted(new)) == (False, True)
    _, newest = rotate_key(ada.principal, key.pk, datetime.timedelta())
    assert (is_accepted(new), is_accepted(newest)) == (False, True)
    assert str(ApiKey.objects.get()) == str(key)


# API keys are shown once, stored as digests, expire, are cheap to check, and end when they leak.


def bearer(text):
    return f"Bearer {text}"


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


def old_key(user):
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
