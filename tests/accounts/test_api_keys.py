"""API keys are shown once, stored as digests, expire, and are cheap to check."""

import datetime

import pytest
from django.utils import timezone

import db
from apps.accounts.authentication import BadCredentials, api_key_principal
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import ANONYMOUS

pytestmark = pytest.mark.django_db(transaction=True)  # a thread writes a key's last use


def bearer(text: str) -> str:
    return f"Bearer {text}"


def noted_uses() -> None:
    db.close()


def test_a_key_speaks_for_its_user_in_their_workspace(ada):
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


def test_a_secret_with_underscores_and_hyphens_is_read_whole(ada, monkeypatch):
    monkeypatch.setattr("apps.accounts.models.secrets.token_urlsafe", lambda size: "_a_b-c__")
    _, text = ApiKey.issue(ada, "laptop")
    assert api_key_principal(bearer(text)).user_id == ada.pk


def test_a_caller_without_a_header_is_anonymous():
    assert api_key_principal("") == ANONYMOUS


def test_a_header_that_holds_no_key_is_refused_not_anonymous(subtests):
    keys = ("", " ", " x", " parley_", " parley__x", " é_ü_x")
    for header in ("Basic YTpi", "parley", *(f"Bearer{key}" for key in keys)):
        with subtests.test(header=header), pytest.raises(BadCredentials):
            api_key_principal(header)


def test_an_unknown_an_expired_and_a_revoked_key_and_one_of_who_left_are_refused_and_others_go_on(ada, bob):
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


def test_a_key_with_scopes_may_do_what_they_name_and_one_without_everything(ada):
    _, narrow = ApiKey.issue(ada, "narrow", scopes=["tasks:read"])
    _, wide = ApiKey.issue(ada, "wide")
    assert api_key_principal(bearer(narrow)).may("tasks:read")
    assert not api_key_principal(bearer(narrow)).may("tasks:write")
    assert api_key_principal(bearer(wide)).may("tasks:write")


def test_checking_a_key_costs_one_query_and_an_anonymous_caller_none(ada, django_assert_num_queries):
    _, text = ApiKey.issue(ada, "laptop")
    with django_assert_num_queries(1):
        api_key_principal(bearer(text))
    with django_assert_num_queries(0):
        api_key_principal("")
    with django_assert_num_queries(0), pytest.raises(BadCredentials):
        api_key_principal("Bearer nonsense")


def test_the_last_use_is_noted_once_a_minute_and_not_for_refused_callers(ada):
    key, text = ApiKey.issue(ada, "laptop")
    with pytest.raises(BadCredentials):
        api_key_principal(bearer(f"parley_{key.prefix}_guessed"))
    noted_uses()
    key.refresh_from_db()
    assert key.last_used_at is None

    api_key_principal(bearer(text))
    noted_uses()
    key.refresh_from_db()
    first = key.last_used_at
    assert timezone.now() - first < datetime.timedelta(minutes=1)

    api_key_principal(bearer(text))
    noted_uses()
    key.refresh_from_db()
    assert key.last_used_at == first

    ApiKey.objects.filter(pk=key.pk).update(last_used_at=first - 2 * ApiKey.TOUCH_AFTER)
    api_key_principal(bearer(text))
    noted_uses()
    key.refresh_from_db()
    assert key.last_used_at >= first


def test_everybody_sees_their_own_keys_alone(ada, bob):
    own, _ = ApiKey.issue(ada, "laptop")
    ApiKey.issue(bob, "laptop")
    assert list(ApiKey.objects.visible_to(ada.principal)) == [own]
    assert not ApiKey.objects.visible_to(ANONYMOUS).exists()
