"""Workspaces in the settings, the switch between them, and what a role permits on pages."""

import re

import pytest
from django.contrib.auth.models import Permission as DjangoPermission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts import workspaces
from apps.accounts.models import Invitation, Membership, User, Workspace
from apps.accounts.people import invitations
from apps.accounts.permissions import Role
from apps.features.sessions import commands
from apps.record.models import Context

LIST = "/settings/workspaces"


@pytest.fixture
def team(ada, bob) -> Workspace:
    """Ada's, with Bob as a member."""
    made = workspaces.create_workspace(ada.principal, "Team")
    workspaces.add_member(ada.principal, made.pk, bob.email, Role.MEMBER)
    return made


@pytest.fixture
def at(team) -> str:
    return f"{LIST}/{team.pk}"


def give(team: Workspace, user: User, role: Role) -> None:
    Membership.objects.filter(workspace=team, user=user).update(role=role)


def role_of(team: Workspace, user: User) -> str | None:
    return Membership.objects.filter(workspace=team, user=user).values_list("role", flat=True).first()


def may_invite(user: User) -> None:
    user.user_permissions.add(DjangoPermission.objects.get(codename="add_user"))
    User.objects.filter(pk=user.pk).update(is_staff=True)


def refused(browser: Client, answer) -> bool:
    """Whether the page says why not."""
    page = browser.get(answer["Location"]) if answer.status_code == 302 else answer
    return page.status_code in (200, 422) and ('class="notice"' in page.text or 'class="error' in page.text)


def test_a_person_makes_a_workspace_and_sees_those_that_they_are_in(ada, ada_browser, bob_browser):
    made = ada_browser.post(LIST, {"name": "Lab"})
    assert role_of(Workspace.objects.get(name="Lab"), ada) == Role.OWNER
    assert "Lab" in ada_browser.get(made["Location"]).text
    assert "Lab" in ada_browser.get(LIST).text
    assert "Lab" not in bob_browser.get(LIST).text
    assert ada_browser.post(LIST, {"name": " "}).status_code == 422


def test_who_is_no_member_finds_no_workspace_and_no_member(ada, bob, team, at, bob_browser, ada_browser):
    workspaces.remove_member(ada.principal, team.pk, bob.pk)
    for address in (at, f"{at}/members/{ada.pk}/remove", f"{LIST}/{2**70}"):
        assert bob_browser.get(address).status_code == 404, address
    for address in ("name", "members", f"members/{ada.pk}/role", f"members/{ada.pk}/remove", "transfer", "delete"):
        assert bob_browser.post(f"{at}/{address}", {"name": "Team", "role": "viewer"}).status_code == 404, address
    assert bob_browser.post(f"{LIST}/choose", {"workspace": team.pk}).status_code == 404
    assert ada_browser.get(f"{at}/members/{bob.pk}/remove").status_code == 404
    assert refused(ada_browser, ada_browser.post(f"{at}/members/{bob.pk}/role", {"role": "viewer"}))
    assert refused(ada_browser, ada_browser.post(f"{at}/members/{2**70}/role", {"role": "viewer"}))


def test_owners_rename_add_change_remove_transfer_and_delete(ada, bob, team, at, ada_browser):
    assert ada_browser.post(f"{at}/members/{bob.pk}/remove").status_code == 302
    assert role_of(team, bob) is None
    ada_browser.post(f"{at}/name", {"name": "Crew"})
    assert Workspace.objects.get(pk=team.pk).name == "Crew"
    ada_browser.post(f"{at}/members", {"email": bob.email.upper(), "role": "viewer"})
    assert role_of(team, bob) == Role.VIEWER
    ada_browser.post(f"{at}/members/{bob.pk}/role", {"role": "manager"})
    assert role_of(team, bob) == Role.MANAGER
    assert refused(ada_browser, ada_browser.post(f"{at}/delete", {"name": "Team"}))
    ada_browser.post(f"{at}/transfer", {"member": bob.pk})
    assert (role_of(team, ada), role_of(team, bob)) == (Role.MANAGER, Role.OWNER)
    assert refused(ada_browser, ada_browser.post(f"{at}/delete", {"name": "Crew"}))
    give(team, ada, Role.OWNER)
    ada_browser.post(f"{at}/delete", {"name": "Crew"})
    assert not Workspace.objects.filter(pk=team.pk, deleted_at=None).exists()
    assert ada_browser.get(at).status_code == 404


ACTS = {
    "name": {"name": "Theirs"},
    "members": {"email": "carol@example.org", "role": "viewer"},
    "members/{ada}/role": {"role": "viewer"},
    "members/{ada}/remove": {},
    "transfer": {"member": "{ada}"},
    "delete": {"name": "Team"},
}
MANAGER_MAY = {"name", "members"}


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER, Role.MANAGER])
def test_what_a_role_does_not_permit_is_not_shown_and_refused_in_a_sentence(ada, bob, team, at, bob_browser, role):
    User.objects.create_user("carol@example.org", "x")
    give(team, bob, role)
    page = bob_browser.get(at).text
    for name, values in ACTS.items():
        name = name.format(ada=ada.pk)
        permitted = role == Role.MANAGER and name in MANAGER_MAY
        assert (f'"{at}/{name}"' in page) == permitted, name
        answer = bob_browser.post(f"{at}/{name}", {key: value.format(ada=ada.pk) for key, value in values.items()})
        assert refused(bob_browser, answer) != permitted, name
    assert role_of(team, ada) == Role.OWNER
    assert bob_browser.post(f"{at}/members", {"email": "carol@example.org", "role": "owner"}).status_code == 422


def test_members_leave_and_the_last_owner_cannot(ada, bob, team, at, ada_browser, bob_browser):
    leave = f"{at}/members/{bob.pk}/remove"
    assert leave in bob_browser.get(at).text
    assert bob_browser.post(leave)["Location"] == LIST
    assert role_of(team, bob) is None
    stay = f"{at}/members/{ada.pk}/remove"
    assert stay not in ada_browser.get(at).text
    assert refused(ada_browser, ada_browser.post(stay))
    assert role_of(team, ada) == Role.OWNER


def test_a_personal_workspace_has_a_name_and_nothing_else_to_change(ada, ada_browser):
    home = f"{LIST}/{ada.personal_workspace.pk}"
    page = ada_browser.get(home).text
    assert [one for one in ("members", "transfer", "delete") if f"{home}/{one}" in page] == []
    ada_browser.post(f"{home}/name", {"name": "Ada's desk"})
    assert Workspace.objects.get(personal_of=ada).name == "Ada's desk"


class TestInviting:
    GRACE = {"email": "Grace@example.org", "role": "viewer"}

    @pytest.fixture
    def link(self, ada, at, ada_browser, settings) -> str:
        may_invite(ada)
        page = ada_browser.post(f"{at}/members", self.GRACE)
        [link] = re.findall(re.escape(settings.PUBLIC_BASE_URL) + r"(/invitations/[\w-]+)", page.text)
        assert "grace@example.org" in ada_browser.get(at).text
        return link

    def accept(self, link):
        browser = Client()
        answer = browser.post(link, {"name": "Grace", "password": "a longer staple battery"})
        return browser, answer

    def test_who_accepts_is_a_member_and_begins_there(self, team, link):
        assert "Team" in Client().get(link).text
        browser, _ = self.accept(link)
        grace = User.objects.get(email="grace@example.org")
        assert (role_of(team, grace), grace.membership.workspace) == (Role.VIEWER, team)
        assert browser.get("/inbox").status_code == 200

    def test_it_ends_with_the_role_of_the_inviter(self, ada, bob, team, link):
        workspaces.transfer_ownership(ada.principal, team.pk, bob.pk)
        give(team, ada, Role.MEMBER)
        _, answer = self.accept(link)
        assert answer.status_code == 200
        assert not User.objects.filter(email="grace@example.org").exists()
        assert Invitation.objects.open().exists()

    def test_a_member_keeps_their_role(self, ada, bob, team):
        may_invite(ada)
        inviter = User.objects.get(pk=ada.pk)
        _, link = invitations.invite(inviter, bob.email, team, Role.VIEWER)
        invitations.accept(link.rpartition("/")[2], bob)
        assert role_of(team, bob) == Role.MEMBER

    def test_who_may_not_invite_is_told_so(self, at, ada_browser):
        assert ada_browser.post(f"{at}/members", self.GRACE).status_code == 422
        assert not Invitation.objects.exists()


class TestSwitching:
    def test_lists_are_those_of_the_chosen_workspace(self, ada, team, ada_browser, echo):
        commands.create_session(ada.principal, echo, title="At home")
        commands.create_session(ada.principal_in(team.pk), echo, title="With the team")
        assert "At home" in ada_browser.get("/").text
        assert ada_browser.post(f"{LIST}/choose", {"workspace": team.pk})["Location"] == "/"
        page = ada_browser.get("/").text
        assert "With the team" in page
        assert "At home" not in page
        assert not Context.objects.filter(workspace=team, title="At home").exists()

    def test_a_list_stays_open_and_no_other_page_or_site_does(self, team, ada_browser):
        places = {
            "/inbox": "/inbox",
            "/settings/usage": "/settings/usage",
            "//evil.example/inbox": "/",
            "/agents/x": "/",
        }
        for before, after in places.items():
            answer = ada_browser.post(f"{LIST}/choose", {"workspace": team.pk, "next": before})
            assert answer["Location"] == after, before

    def test_the_switch_is_there_for_who_is_in_more_than_one_workspace(self, ada, bob, team, ada_browser, bob_browser):
        workspaces.remove_member(ada.principal, team.pk, bob.pk)
        assert f"{LIST}/choose" in ada_browser.get("/inbox").text
        assert f"{LIST}/choose" not in bob_browser.get("/inbox").text

    def test_it_costs_no_query(self, ada, bob, team, ada_browser, bob_browser, django_assert_num_queries):
        workspaces.remove_member(ada.principal, team.pk, bob.pk)
        bob_browser.get("/inbox")  # what is read once
        with CaptureQueriesContext(connection) as alone:
            bob_browser.get("/inbox")
        with django_assert_num_queries(len(alone)):
            ada_browser.get("/inbox")


def test_viewers_write_on_no_page(ada, bob, team, bob_browser, echo):
    workspaces.choose_workspace(bob.principal, team.pk)
    assert f"/agents/{echo.slug}/messages" in bob_browser.get("/").text
    give(team, bob, Role.VIEWER)
    assert f"/agents/{echo.slug}/messages" not in bob_browser.get("/").text
    answer = bob_browser.post(f"/agents/{echo.slug}/messages", {"text": "hello"})
    assert (answer.status_code, "Member" in answer.json()["error"]) == (403, True)
    assert bob_browser.post("/plans/new", {}).status_code == 403
    assert not Context.objects.exists()
