"""Whoever loses access is cut off within seconds, in open streams and sockets too, with the usual settings."""

import asyncio

import pytest
from allauth.idp.oidc.models import Client as Program
from allauth.idp.oidc.models import Token
from django.core.management import call_command
from django.test import Client

from apps.accounts import revocation, workspaces
from apps.accounts.keys import REVOKE
from apps.accounts.models import ApiKey, User
from apps.accounts.people.erasure import erase
from apps.accounts.people.sign_in import sign_out_everywhere
from apps.accounts.permissions import Role
from apps.conversations.sessions.workspaces import delete_workspace
from parley import db

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("rows of other processes are read by the database's clock"),
]
WITHIN = 5.0  # seconds


def new_password(user):
    user.set_password("another horse")
    user.save()


def end_token(user):
    program = Program.objects.create(id="program")
    Token.objects.create(type=Token.Type.ACCESS_TOKEN, hash="x", client=program, user=user).delete()


def delete_service(user):
    service = Program.objects.create(id="service", owner=user)
    Token.objects.create(type=Token.Type.ACCESS_TOKEN, hash="y", client=service)
    service.delete()


def sign_out(user):
    browser = Client()
    browser.force_login(user)
    browser.post("/sign-out")


OF_PEOPLE = {
    "disable": lambda user: call_command("disable_user", user.email),
    "revoke": lambda user: REVOKE.perform(user.principal, ApiKey.issue(user, "laptop")[0]),
    **{act.__name__: act for act in (new_password, end_token, delete_service, sign_out)},
    **{act.__name__: act for act in (sign_out_everywhere, erase)},
}
IN_WORKSPACES = {
    "change role": lambda user, owner, team: workspaces.change_role(owner.principal, team.pk, user.pk, Role.VIEWER),
    "remove": lambda user, owner, team: workspaces.remove_member(owner.principal, team.pk, user.pk),
    "make owner": lambda user, owner, team: workspaces.transfer_ownership(owner.principal, team.pk, user.pk),
    "delete": lambda user, owner, team: delete_workspace(owner.principal, team.pk, "Team"),
    "switch": lambda user, owner, team: workspaces.choose_workspace(user.principal, team.pk),
}


def act(name, user):
    if name in OF_PEOPLE:
        return OF_PEOPLE[name](user)
    owner = User.objects.create_user("owner@example.org", "x")
    team = workspaces.create_workspace(owner.principal, "Team")
    workspaces.add_member(owner.principal, team.pk, user.email, Role.MEMBER)
    return IN_WORKSPACES[name](user, owner, team)


@pytest.mark.parametrize("name", [*OF_PEOPLE, *IN_WORKSPACES])
async def test_only_who_waits_for_the_person_wakes(ada, bob, name, monkeypatch):
    monkeypatch.setattr(revocation, "POLL_SECONDS", 0.05)
    changed, others = revocation.next_change(f"user:{ada.pk}"), revocation.next_change(f"user:{bob.pk}")
    await db.run(act, name, ada)
    await asyncio.wait_for(changed, WITHIN)
    assert not others.done()


async def test_usual_settings_wake_within_five_seconds(ada):
    changed = revocation.next_change(f"user:{ada.pk}")
    await db.run(act, "disable", ada)
    await asyncio.wait_for(changed, WITHIN)


async def test_what_happened_just_before_is_noticed(ada):
    await db.run(revocation.announce, ada.pk)
    await asyncio.wait_for(revocation.next_change(f"user:{ada.pk}"), WITHIN)


async def test_one_change_wakes_once(ada, monkeypatch):
    monkeypatch.setattr(revocation, "POLL_SECONDS", 0.01)
    sender = f"user:{ada.pk}"
    first = revocation.next_change(sender)
    await db.run(revocation.announce, ada.pk)
    await asyncio.wait_for(first, WITHIN)
    again = revocation.next_change(sender)
    assert again is revocation.next_change(sender), "all who wait share one"
    await asyncio.wait({again}, timeout=0.2)
    assert not again.done()
    await db.run(revocation.announce, ada.pk)
    await asyncio.wait_for(again, WITHIN)


def test_disabling_ends_sessions_and_keys(ada):
    browser, text = Client(), ApiKey.issue(ada, "laptop")[1]
    browser.force_login(ada)

    def works():
        return Client().get("/api/v1/agents", headers={"Authorization": f"Bearer {text}"}).status_code == 200

    assert (browser.get("/inbox").status_code, works()) == (200, True)
    call_command("disable_user", ada.email)
    assert (browser.get("/inbox").status_code, works()) == (302, False)
    call_command("disable_user", ada.email, "--enable")
    assert (browser.get("/inbox").status_code, works()) == (302, True), "old sessions stay ended"
