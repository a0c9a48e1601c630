"""Whoever loses access is cut off within seconds, in open streams and sockets too, with the usual settings."""

import asyncio

import pytest
from allauth.idp.oidc.models import Client as Program
from allauth.idp.oidc.models import Token
from django.core.management import call_command
from django.test import Client

from apps.accounts import revocation, workspaces
from apps.accounts.keys import REVOKE
from apps.accounts.models import AccessChange, ApiKey, User, Workspace
from apps.accounts.pages.erasure import erase_account
from apps.accounts.people.sign_in import sign_out_everywhere
from apps.accounts.permissions import Role
from apps.conversations.sessions.workspaces import delete_workspace
from parley import db

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("rows of other processes are read by the database's clock"),
]
WITHIN = 5.0  # seconds


def disable(user: User) -> None:
    call_command("disable_user", user.email)


def new_password(user: User) -> None:
    user.set_password("another horse")
    user.save()


def revoke(user: User) -> None:
    REVOKE.perform(user.principal, ApiKey.issue(user, "laptop")[0])


def end_token(user: User) -> None:
    program = Program.objects.create(id="program")
    Token.objects.create(type=Token.Type.ACCESS_TOKEN, hash="x", client=program, user=user).delete()


def delete_service(user: User) -> None:
    service = Program.objects.create(id="service", owner=user)
    Token.objects.create(type=Token.Type.ACCESS_TOKEN, hash="y", client=service)
    service.delete()


def sign_out(user: User) -> None:
    browser = Client()
    browser.force_login(user)
    browser.post("/sign-out")


def of_team(user: User) -> tuple[User, Workspace]:
    """An owner, and the workspace in which the user is a member."""
    owner = User.objects.create_user("owner@example.org", "x")
    team = workspaces.create_workspace(owner.principal, "Team")
    workspaces.add_member(owner.principal, team.pk, user.email, Role.MEMBER)
    return owner, team


def change_role(user: User) -> None:
    owner, team = of_team(user)
    workspaces.change_role(owner.principal, team.pk, user.pk, Role.VIEWER)


def remove_from_workspace(user: User) -> None:
    owner, team = of_team(user)
    workspaces.remove_member(owner.principal, team.pk, user.pk)


def make_owner(user: User) -> None:
    owner, team = of_team(user)
    workspaces.transfer_ownership(owner.principal, team.pk, user.pk)


def delete_their_workspace(user: User) -> None:
    owner, team = of_team(user)
    delete_workspace(owner.principal, team.pk, "Team")


def switch_workspace(user: User) -> None:
    _, team = of_team(user)
    workspaces.choose_workspace(user.principal, team.pk)


IN_WORKSPACES = [change_role, remove_from_workspace, make_owner, delete_their_workspace, switch_workspace]
OF_PEOPLE = [disable, new_password, revoke, end_token, delete_service, sign_out, sign_out_everywhere, erase_account]
ACTS = [*OF_PEOPLE, *IN_WORKSPACES]


@pytest.mark.parametrize("act", ACTS)
async def test_only_who_waits_for_the_person_wakes(ada, bob, act, monkeypatch):
    monkeypatch.setattr(revocation, "POLL_SECONDS", 0.05)
    changed, others = revocation.next_change(f"user:{ada.pk}"), revocation.next_change(f"user:{bob.pk}")
    await db.run(act, ada)
    await asyncio.wait_for(changed, WITHIN)
    assert not others.done()


async def test_usual_settings_wake_within_five_seconds(ada):
    changed = revocation.next_change(f"user:{ada.pk}")
    await db.run(disable, ada)
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


def test_signing_in_and_settings_announce_nothing(client, ada):
    client.post("/sign-in", {"username": ada.email, "password": "correct horse"})
    client.post("/settings/appearance/theme", {"theme": "dark"})
    assert not AccessChange.objects.exists()


def test_disabling_ends_sessions_and_keys(ada, ada_browser_and_key):
    browser, works = ada_browser_and_key
    assert (browser.get("/inbox").status_code, works()) == (200, True)
    call_command("disable_user", ada.email)
    assert (browser.get("/inbox").status_code, works()) == (302, False)
    call_command("disable_user", ada.email, "--enable")
    assert (browser.get("/inbox").status_code, works()) == (302, True), "old sessions stay ended"


@pytest.fixture
def ada_browser_and_key(ada):
    browser, text = Client(), ApiKey.issue(ada, "laptop")[1]
    browser.force_login(ada)

    def works() -> bool:
        return Client().get("/api/v1/agents", headers={"Authorization": f"Bearer {text}"}).status_code == 200

    return browser, works
