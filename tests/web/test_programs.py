"""People register programs, see whom they allowed, and end it; operators see all programs."""

import re

import pytest
from allauth.idp.oidc.models import Client as Program
from allauth.idp.oidc.models import Token
from django.test import Client
from django.urls import reverse

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.authentication import BadCredentials
from apps.accounts.principals import READ
from tests.web.test_oauth import BACK, allow, ask, bob_browses, by_itself, code_of, exchange, post, program, who
from tests.web.test_settings import PASSWORD

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["bob_browses", "program"]

PAGE = "/settings/programs"
NEW = {"name": "A service", "kind": "service", "redirect_uris": "", "scopes": [READ], "current_password": PASSWORD}


@pytest.fixture
def browser(ada):
    ada.set_password(PASSWORD)
    ada.save()
    browser = Client()
    browser.force_login(ada)
    return browser


def test_a_registered_service_gets_a_token_with_the_secret_that_is_shown_once(browser, ada, echo):
    shown = browser.post(PAGE, NEW).content.decode()
    made = Program.objects.get()
    secret = re.search(r'id="client-secret">([^<]+)<', shown)[1]
    assert secret not in browser.get(PAGE).content.decode()
    asked = {"client_id": made.pk, "client_secret": secret}
    answer = post("/oauth/token", grant_type="client_credentials", scope=f"{READ} agent:echo", **asked)
    caller = who(answer.json()["access_token"])
    assert (caller.user_id, caller.scopes, caller.agents) == (ada.pk, {READ}, {"echo"})
    browser.post(f"{PAGE}/{made.pk}/delete")
    with pytest.raises(BadCredentials):
        who(answer.json()["access_token"])
    actions = AuditEntry.objects.filter(group="program").order_by("pk").values_list("action", flat=True)
    assert list(actions) == [AuditAction.PROGRAM_CREATED, AuditAction.PROGRAM_DELETED]


@pytest.mark.parametrize(
    "wrong",
    [
        {"current_password": "guess"},
        {"scopes": ["keys:write"]},
        {"kind": "site"},
        *(
            {"kind": "app", "redirect_uris": address}
            for address in (
                "http://program.example/back",
                "https://program.example/*",
                "https://program.example/#x",
                "javascript://localhost/%0aalert(1)",
                "back",
            )
        ),
    ],
)
def test_a_program_with_unsafe_addresses_or_rights_is_refused(browser, wrong):
    assert browser.post(PAGE, NEW | wrong).status_code == 422
    assert not Program.objects.exists()


def test_who_allowed_a_program_sees_it_and_ends_it(program, bob_browses, bob):
    answer = exchange(code_of(allow(bob_browses, ask(bob_browses), [READ]))).json()
    assert "The program" in bob_browses.get(PAGE).content.decode()
    assert bob_browses.post(f"{PAGE}/{program.pk}/end").status_code == 302
    with pytest.raises(BadCredentials):
        who(answer["access_token"])
    assert not Token.objects.filter(user=bob).exists()
    actions = AuditEntry.objects.filter(group="program").order_by("pk").values_list("action", "object_key")
    assert list(actions) == [(AuditAction.PROGRAM_ALLOWED, "program"), (AuditAction.PROGRAM_ENDED, "program")]


def test_nobody_touches_somebody_elses_program(program, bob_browses):
    own = by_itself()
    for path in (f"{PAGE}/{program.pk}/end", f"{PAGE}/{program.pk}/delete", f"{PAGE}/none/delete"):
        assert bob_browses.post(path).status_code == 404
    assert who(own).is_known


def test_operators_register_programs_with_known_scopes(admin_client, ada):
    page = reverse("admin:allauth_idp_oidc_client_add")
    values = {"name": "Robot", "owner": ada.pk, "type": "confidential", "grant_types": "client_credentials"}
    values |= {"redirect_uris": BACK, "scopes": "tasks:read\nagent:echo"}
    assert "scopes" in admin_client.post(page, values | {"scopes": "root"}).context["adminform"].form.errors
    shown = admin_client.post(page, values)
    assert "no-store" in shown["Cache-Control"]
    made = Program.objects.get()
    assert (made.get_scopes(), made.owner) == (["tasks:read", "agent:echo"], ada)
    assert made.check_secret(shown.context["program"].shown_secret)
    assert admin_client.get(reverse("admin:allauth_idp_oidc_client_changelist")).status_code == 200
    assert admin_client.get(reverse("admin:allauth_idp_oidc_client_change", args=[made.pk])).status_code == 200
