"""People make and revoke their own API keys, within what they may do themselves."""

import datetime

import pytest
from django.test import override_settings
from django.utils import timezone

from apps.accounts import keys
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.authentication import BadCredentials, api_key_principal
from apps.accounts.errors import NotFound
from apps.accounts.keys import KeyRefused, make_key, revoke_key
from apps.accounts.models import ApiKey
from apps.accounts.principals import READ, WRITE, Principal
from apps.accounts.quotas import QuotaExceeded

pytestmark = pytest.mark.django_db(transaction=True)  # a thread writes a key's last use


def test_a_made_key_works_within_its_scopes_until_it_is_revoked(ada):
    key, text = make_key(ada.principal, ada, "laptop", [READ], datetime.timedelta(days=7))
    caller = api_key_principal(f"Bearer {text}")
    assert (caller.user_id, caller.may(READ), caller.may(WRITE)) == (ada.pk, True, False)
    assert datetime.timedelta(days=6) < key.expires_at - timezone.now() < datetime.timedelta(days=8)
    revoke_key(ada.principal, key.pk)
    with pytest.raises(BadCredentials):
        api_key_principal(f"Bearer {text}")


def test_a_key_never_gets_more_than_its_maker_has(ada, bob, subtests):
    reader = Principal(ada.pk, ada.personal_workspace.pk, name="Ada", scopes=frozenset([READ]))
    wrong = {"nothing": (ada.principal, ada, []), "unknown": (ada.principal, ada, ["root"])}
    wrong |= {"more than the maker": (reader, ada, [READ, WRITE]), "somebody else's": (ada.principal, bob, [READ])}
    for name, (maker, user, scopes) in wrong.items():
        with subtests.test(name), pytest.raises(KeyRefused):
            make_key(maker, user, "laptop", scopes)
    assert not ApiKey.objects.exists()
    assert make_key(reader, ada, "laptop", [READ])[0].scopes == [READ]


def test_nobody_revokes_somebody_elses_key(ada, bob):
    key, text = make_key(ada.principal, ada, "laptop", [READ])
    with pytest.raises(NotFound):
        revoke_key(bob.principal, key.pk)
    assert api_key_principal(f"Bearer {text}").is_known


def test_making_and_revoking_are_in_the_audit_log_once_each(ada):
    key, _ = make_key(ada.principal, ada, "laptop", [READ])
    for _ in range(2):
        revoke_key(ada.principal, key.pk)
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
