"""Wrong passwords: by account, by address, by password and in all, at every door and in every process."""

import base64
import pickle
import time
from collections.abc import Iterator

import pytest
from django.test import Client

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import CacheEntry, User

PASSWORD = "correct horse"
LOCKED = "too_many_login_attempts"


def sign_in(client: Client, email: str, password: str, address: str = "203.0.113.1"):
    return client.post("/sign-in", {"username": email, "password": password}, REMOTE_ADDR=address)


def is_locked(answer) -> bool:
    return answer.status_code == 200 and answer.context["form"].has_error("__all__", LOCKED)


def addresses() -> Iterator[str]:
    yield from (f"198.51.100.{number}" for number in range(1, 250))


def test_an_account_is_locked_from_everywhere_and_for_admin_too(ada):
    User.objects.filter(pk=ada.pk).update(is_staff=True)
    for number, address in zip(range(10), addresses(), strict=False):
        assert not is_locked(sign_in(Client(), ada.email, f"guess {number}", address))
    assert is_locked(sign_in(Client(), ada.email, PASSWORD, "192.0.2.9"))
    answer = Client().get("/admin/login/?next=/admin/")
    assert answer["Location"] == "/sign-in?next=%2Fadmin%2F"
    entry = AuditEntry.objects.filter(action=AuditAction.SIGN_IN_REFUSED).latest("number")
    assert entry.details == {"reason": "too many failed attempts"}


def test_one_address_may_not_try_any_number_of_accounts(ada):
    for number in range(50):
        assert not is_locked(sign_in(Client(), f"nobody{number}@example.org", f"guess {number}"))
    assert is_locked(sign_in(Client(), ada.email, PASSWORD))
    assert sign_in(Client(), ada.email, PASSWORD, "192.0.2.9").status_code == 302


def test_one_password_may_not_be_tried_at_any_number_of_accounts(ada, bob):
    bob.set_password("hunter2")
    bob.save()
    for number, address in zip(range(20), addresses(), strict=False):
        assert not is_locked(sign_in(Client(), f"nobody{number}@example.org", "hunter2", address))
    assert is_locked(sign_in(Client(), bob.email, "hunter2", "192.0.2.9"))
    assert sign_in(Client(), ada.email, PASSWORD, "192.0.2.9").status_code == 302


def test_there_is_a_limit_in_all(ada, settings):
    settings.ACCOUNT_RATE_LIMITS = {**settings.ACCOUNT_RATE_LIMITS, "wrong_passwords": "5/10m/key"}
    for number, address in zip(range(5), addresses(), strict=False):
        sign_in(Client(), f"nobody{number}@example.org", f"guess {number}", address)
    assert is_locked(sign_in(Client(), ada.email, PASSWORD, "192.0.2.9"))


def test_strangers_keep_nobody_out_of_a_browser_that_they_know(ada):
    own = Client()
    assert sign_in(own, ada.email, PASSWORD).status_code == 302
    own.post("/sign-out")
    for number, address in zip(range(11), addresses(), strict=False):
        sign_in(Client(), ada.email, f"guess {number}", address)
    assert sign_in(own, ada.email, PASSWORD).status_code == 302
    own.post("/sign-out")
    for number in range(10):
        assert not is_locked(sign_in(own, ada.email, f"guess {number}"))
    assert is_locked(sign_in(own, ada.email, PASSWORD))


def test_a_known_browser_is_known_for_its_accounts_alone_and_its_cookie_cannot_be_made(ada, bob):
    bob.set_password(PASSWORD)
    bob.save()
    own, forged = Client(), Client()
    sign_in(own, bob.email, PASSWORD)
    forged.cookies["known-browser"] = own.cookies["known-browser"].value.replace(".", ".0", 1)
    for number, address in zip(range(10), addresses(), strict=False):
        sign_in(Client(), ada.email, f"guess {number}", address)
    own.post("/sign-out")
    for client in (own, forged):
        assert is_locked(sign_in(client, ada.email, PASSWORD))


def test_the_lock_ends_after_ten_minutes(ada, monkeypatch):
    for number in range(10):
        sign_in(Client(), ada.email, f"guess {number}")
    assert is_locked(sign_in(Client(), ada.email, PASSWORD))
    later = time.time() + 601
    monkeypatch.setattr(time, "time", lambda: later)
    assert sign_in(Client(), ada.email, PASSWORD).status_code == 302


def test_all_processes_see_the_counts(ada):
    for number in range(10):
        sign_in(Client(), ada.email, f"guess {number}")
    counts = {one.pk: pickle.loads(base64.b64decode(one.value)) for one in CacheEntry.objects.all()}
    assert [len(times) for key, times in counts.items() if "wrong_passwords_of_account" in key] == [10]


def test_confirming_by_password_counts_at_the_same_account(ada, browser_of):
    browser = browser_of(ada)
    for number in range(10):
        values = {"current_password": f"guess {number}", "new_password": "a longer staple", "again": "a longer staple"}
        assert browser.post("/settings/password", values).status_code == 422
    assert is_locked(sign_in(Client(), ada.email, PASSWORD))


def test_who_is_no_operator_is_refused_by_admin_and_not_sent_around(ada_browser):
    answers = ada_browser.get("/admin/", follow=True)
    assert answers.status_code == 403


@pytest.mark.parametrize("address", ["::ffff:203.0.113.1", "2001:db8::1"])
def test_addresses_of_both_families_sign_in(ada, address):
    assert sign_in(Client(), ada.email, PASSWORD, address).status_code == 302
