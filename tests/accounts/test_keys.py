"""People and keys make, change and revoke keys within what they may do themselves."""

import datetime

import pytest
from django.test import override_settings
from django.utils import timezone

from apps.accounts import keys
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.authentication import BadCredentials, api_key_principal
from apps.accounts.errors import NotFound
from apps.accounts.keys import KEYS_OF_PEOPLE, REVOKE, KeyRefused, make_key, rotate_key
from apps.accounts.models import ApiKey, Workspace
from apps.accounts.principals import KEYS, READ, WRITE, MissingScope, Principal
from apps.accounts.quotas import QuotaExceeded
from apps.accounts.resources import NotNeeded

pytestmark = pytest.mark.django_db(transaction=True)  # a thread writes a key's last use


def test_made_key_works_until_it_is_revoked(ada):
    key, text = make_key(ada.principal, ada, "laptop", [READ], datetime.timedelta(days=7))
    caller = api_key_principal(f"Bearer {text}")
    assert (caller.user_id, caller.may(READ), caller.may(WRITE)) == (ada.pk, True, False)
    assert datetime.timedelta(days=6) < key.expires_at - timezone.now() < datetime.timedelta(days=8)
    REVOKE.perform(ada.principal, key)
    with pytest.raises(BadCredentials):
        api_key_principal(f"Bearer {text}")


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


def caller(text: str):
    return api_key_principal(f"Bearer {text}")


def is_accepted(text: str) -> bool:
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
    "another agent": ([READ], DAY, ["countdown"]),
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


def test_key_sees_no_keys_of_another_workspace(ada, narrow):
    key, _ = make_key(ada.principal, ada, "other", [READ], DAY, ["echo"])
    ApiKey.objects.filter(pk=key.pk).update(workspace=Workspace.objects.create(name="elsewhere"))
    for find in (rotate_key, KEYS_OF_PEOPLE.find):
        with pytest.raises(NotFound):
            find(narrow[1], key.pk)


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
