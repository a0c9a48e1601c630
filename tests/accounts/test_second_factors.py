"""Authenticator apps, recovery codes and passkeys, and what asks for them again."""

import base64
import hmac
import json
import re
import struct
import time

import pytest
from allauth.mfa.models import Authenticator
from django.core.management import call_command
from django.test import Client

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import User
from apps.accounts.people.links import sign_in_link
from tests.accounts.test_encryption_at_rest import new_key
from tests.clients.passkeys import Passkey

PASSWORD = "correct horse"
SECURITY = "/settings/security"


def options_in(page):
    return json.loads(re.search(r'id="js_data"[^>]*>(.*?)</script>', page.text, re.DOTALL)[1])


def totp(secret, steps=0):
    """The code of an app (RFC 6238), some steps of 30 seconds from now."""
    counter = struct.pack(">Q", int(time.time() // 30) + steps)
    digest = hmac.digest(base64.b32decode(secret), counter, "sha1")
    offset = digest[-1] & 15
    return f"{(int.from_bytes(digest[offset : offset + 4]) & 0x7FFFFFFF) % 10**6:06}"


def sign_in(client, user):
    return client.post("/sign-in", {"username": user.email, "password": PASSWORD}, follow=True)


def is_signed_in(browser):
    return browser.get("/inbox").status_code == 200


def confirm(client, address):
    """Open a page that asks for the password first."""
    asked = client.get(address, follow=True)
    assert asked.redirect_chain[-1][0].startswith("/confirm?")
    return client.post(asked.redirect_chain[-1][0], {"password": PASSWORD}, follow=True)


@pytest.fixture
def app(ada, ada_browser):
    """The secret of Ada's authenticator app."""
    page = confirm(ada_browser, f"{SECURITY}/app/add")
    secret = re.search(r'id="totp-secret">([A-Z2-7]+)<', page.text)[1]
    answer = ada_browser.post(f"{SECURITY}/app/add", {"code": totp(secret, -1)}, follow=True)
    assert answer.redirect_chain[-1][0] == f"{SECURITY}/recovery-codes"
    return secret


@pytest.fixture
def passkey(ada, ada_browser):
    """Ada's passkey."""
    made = Passkey()
    page = confirm(ada_browser, f"{SECURITY}/passkeys/add")
    values = {"name": "phone", "passwordless": "on", "credential": made.created(options_in(page)["creation_options"])}
    assert ada_browser.post(f"{SECURITY}/passkeys/add", values).status_code == 302
    return made


def use_at_sign_in(client, passkey, **more):
    options = client.get("/sign-in/passkey", headers={"Accept": "application/json"}).json()["request_options"]
    return client.post("/sign-in/passkey", {"credential": passkey.used(options), **more})


class TestApp:
    def test_signing_in_takes_its_code_once(self, ada, app):
        page = sign_in(Client(), ada)
        assert page.redirect_chain[-1][0] == "/sign-in/code"
        browser, code = page.client, totp(app)
        assert not is_signed_in(browser)
        assert browser.post("/sign-in/code", {"code": "000000"}).status_code == 200
        assert browser.post("/sign-in/code", {"code": code})["Location"] == "/"
        assert is_signed_in(browser)
        again = sign_in(Client(), ada).client
        assert again.post("/sign-in/code", {"code": code}).status_code == 200

    def test_recovery_code_works_in_its_place_once(self, ada, app, ada_browser):
        codes = re.findall(r"<li><code>(\d+)</code>", ada_browser.get(f"{SECURITY}/recovery-codes").text)
        assert len(codes) == 10
        for expected in (302, 200):
            browser = sign_in(Client(), ada).client
            assert browser.post("/sign-in/code", {"code": codes[0]}).status_code == expected

    def test_few_codes_can_be_tried(self, ada, app):
        browser = sign_in(Client(), ada).client
        for number in range(10):
            browser.post("/sign-in/code", {"code": f"{number:06}"})
        assert browser.post("/sign-in/code", {"code": totp(app)}).status_code == 200
        assert not is_signed_in(browser)

    def test_its_secret_outlives_a_new_master_key(self, ada, app, settings):
        stored = Authenticator.objects.get(type="totp").data["secret"]
        assert app not in stored
        settings.MASTER_KEY = f"{(new := new_key())},{settings.MASTER_KEY}"
        call_command("rotate_master_key")
        settings.MASTER_KEY = new
        assert sign_in(Client(), ada).client.post("/sign-in/code", {"code": totp(app)}).status_code == 302

    def test_sign_in_link_does_not_replace_it(self, ada, app):
        browser = Client()
        form = browser.get(sign_in_link(ada).partition("8000")[2], follow=True).redirect_chain[-1][0]
        new = {"new_password1": "a longer staple battery", "new_password2": "a longer staple battery"}
        assert browser.post(form, new)["Location"] == "/sign-in/code"
        assert not is_signed_in(browser)

    @pytest.mark.django_db(transaction=True)  # entries are written after the commit
    def test_removing_it_asks_again_and_is_audited(self, ada, app, browser_of):
        other = browser_of(ada)
        asked = other.post(f"{SECURITY}/app/remove")["Location"]
        assert asked.startswith("/confirm?")
        assert other.post(asked, {"password": "guess"}).status_code == 200
        assert Authenticator.objects.filter(type="totp").exists()
        assert other.post(asked, {"password": PASSWORD}).status_code == 302
        assert not Authenticator.objects.exists(), "recovery codes go with the last factor"
        actions = AuditEntry.objects.filter(group="second_factor").order_by("number").values_list("action", flat=True)
        assert list(actions) == [AuditAction.FACTOR_ADDED] * 2 + [AuditAction.FACTOR_REMOVED] * 2


class TestPasskey:
    def test_it_signs_in_alone_to_the_asked_page(self, ada, passkey):
        browser = Client()
        assert use_at_sign_in(browser, passkey, next="/agents")["Location"] == "/agents"
        assert is_signed_in(browser)
        assert AuditEntry.objects.filter(action=AuditAction.SIGNED_IN).latest("number").actor_key == str(ada.pk)

    @pytest.mark.parametrize("wrong", ["another key", "old answer", "disabled account"])
    def test_wrong_answers_are_refused(self, ada, passkey, wrong):
        browser, leads = Client(), "/sign-in"
        headers = {"Accept": "application/json"}
        options = browser.get("/sign-in/passkey", headers=headers).json()["request_options"]
        used = passkey
        if wrong == "another key":
            used = Passkey()
            used.id, used.user_handle = passkey.id, passkey.user_handle
        elif wrong == "old answer":
            browser.get("/sign-in/passkey", headers=headers)
        else:
            User.objects.filter(pk=ada.pk).update(is_active=False)
            leads = "/sign-in/inactive"
        assert browser.post("/sign-in/passkey", {"credential": used.used(options)})["Location"] == leads
        assert not is_signed_in(browser)

    def test_it_confirms_where_there_is_no_password(self, ada, passkey, browser_of):
        ada.set_unusable_password()
        ada.save()
        browser = browser_of(ada)
        key = {"name": "laptop", "scopes": ["tasks:read"], "days": "30"}
        asked = browser.post("/settings/keys", key, follow=True)
        assert asked.redirect_chain[-1][0].startswith("/confirm/passkey")
        assert not ada.api_keys.exists()
        used = passkey.used(options_in(asked)["request_options"])
        answer = browser.post(asked.redirect_chain[-1][0], {"credential": used})
        assert (answer.status_code, ada.api_keys.count()) == (200, 1), "the request goes on"

    def test_somebody_elses_is_not_found(self, ada, passkey, bob, browser_of):
        bob.set_password(PASSWORD)
        bob.save()
        browser, number = browser_of(bob), Authenticator.objects.get(type="webauthn").pk
        confirm(browser, f"{SECURITY}/passkeys/add")
        for end in ("remove", "name"):
            for answer in (browser.get, browser.post):
                assert answer(f"{SECURITY}/passkeys/{number}/{end}").status_code == 404
