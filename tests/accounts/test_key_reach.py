"""A key makes and changes only keys that are no wider than itself, and ends with the key that made it."""

import datetime

import pytest
from django.utils import timezone

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.authentication import BadCredentials, api_key_principal
from apps.accounts.errors import NotFound
from apps.accounts.keys import KeyRefused, make_key, revoke_key, rotate_key
from apps.accounts.models import ApiKey, Workspace
from apps.accounts.principals import KEYS, READ, WRITE

pytestmark = pytest.mark.django_db(transaction=True)  # a thread writes a key's last use

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
def test_a_key_makes_no_wider_key(ada, narrow, wanted):
    scopes, lifetime, agents = wanted
    with pytest.raises(KeyRefused):
        make_key(narrow[1], ada, "wider", scopes, lifetime, agents)
    assert ApiKey.objects.count() == 1


def test_it_makes_one_within_itself_and_in_its_own_workspace(ada, narrow):
    elsewhere = Workspace.objects.create(name="elsewhere")
    ApiKey.objects.filter(pk=narrow[0].pk).update(workspace=elsewhere)
    narrow[0].refresh_from_db()
    made, _ = make_key(narrow[0].principal, ada, "made", [READ, KEYS], 9 * DAY, ["echo"])
    assert (made.scopes, made.agents, made.made_by, made.workspace) == ([READ, KEYS], ["echo"], narrow[0], elsewhere)


def test_a_key_without_the_scope_makes_rotates_and_revokes_nothing(ada):
    other, _ = make_key(ada.principal, ada, "other", [READ])
    reader = caller(make_key(ada.principal, ada, "reader", [READ, WRITE])[1])
    acts = (
        lambda: make_key(reader, ada, "made", [READ]),
        lambda: rotate_key(reader, other.pk),
        lambda: revoke_key(reader, other.pk),
    )
    for act in acts:
        with pytest.raises(KeyRefused):
            act()


@pytest.mark.parametrize("wanted", WIDER.values(), ids=WIDER)
def test_a_key_neither_rotates_nor_revokes_a_wider_one(ada, narrow, wanted):
    scopes, lifetime, agents = wanted
    wider, text = make_key(ada.principal, ada, "wider", scopes, lifetime, agents)
    for act in (rotate_key, revoke_key):
        with pytest.raises(KeyRefused):
            act(narrow[1], wider.pk)
    assert is_accepted(text)


def test_a_key_does_not_see_the_keys_of_another_workspace(ada, narrow):
    key, _ = make_key(ada.principal, ada, "other", [READ], DAY, ["echo"])
    ApiKey.objects.filter(pk=key.pk).update(workspace=Workspace.objects.create(name="elsewhere"))
    for act in (rotate_key, revoke_key):
        with pytest.raises(NotFound):
            act(narrow[1], key.pk)


def test_a_revoked_key_makes_no_key_though_its_request_is_under_way(ada, narrow):
    narrow[0].revoke()
    with pytest.raises(KeyRefused):
        make_key(narrow[1], ada, "made", [READ], DAY, ["echo"])


def test_revoking_a_key_ends_those_that_it_made(ada, narrow):
    made, text = make_key(narrow[1], ada, "made", [READ, KEYS], DAY, ["echo"])
    _, second = make_key(caller(text), ada, "made by made", [READ], DAY / 2, ["echo"])
    _, other = make_key(ada.principal, ada, "other", [READ])
    revoke_key(ada.principal, narrow[0].pk)
    assert (is_accepted(text), is_accepted(second), is_accepted(other)) == (False, False, True)
    made.refresh_from_db()
    assert made.revoked_because == ApiKey.Reason.MAKER
    assert AuditEntry.objects.filter(action=AuditAction.KEY_REVOKED).count() == 3


def test_after_a_rotation_the_old_secret_works_for_the_grace_period_alone(ada):
    key, old = make_key(ada.principal, ada, "laptop", [READ])
    _, new = rotate_key(ada.principal, key.pk, datetime.timedelta(hours=1))
    assert (is_accepted(old), is_accepted(new)) == (True, True)
    ApiKey.objects.update(previous_until=timezone.now())
    assert (is_accepted(old), is_accepted(new)) == (False, True)
    _, newest = rotate_key(ada.principal, key.pk, datetime.timedelta())
    assert (is_accepted(new), is_accepted(newest)) == (False, True)
    assert str(ApiKey.objects.get()) == str(key)
