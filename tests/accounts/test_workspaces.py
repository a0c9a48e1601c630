"""Workspaces: who may change what, and how access ends."""

import pytest
from django.contrib.auth import authenticate
from django.db import IntegrityError, transaction

from apps.accounts import workspaces
from apps.accounts.audit_models import AuditEntry
from apps.accounts.errors import NotFound
from apps.accounts.models import ApiKey, User, Workspace
from apps.accounts.permissions import PERMISSIONS, Permission, Role
from apps.accounts.principals import ANONYMOUS
from apps.accounts.requests.authentication import BadCredentials, api_key_principal
from apps.accounts.workspaces import NotPermitted, WorkspaceRefused
from apps.conversations.sessions import commands, deletion
from apps.conversations.sessions.workspaces import delete_workspace
from apps.record.models import Context


@pytest.fixture
def team(ada, bob):
    made = workspaces.create_workspace(ada.principal, "Team")
    workspaces.add_member(ada.principal, made.pk, bob.email, Role.MEMBER)
    return made


def here(user, workspace):
    return User.objects.get(pk=user.pk).principal_in(workspace.pk)


def roles(workspace):
    return dict(workspace.memberships.values_list("user__email", "role"))


@pytest.mark.parametrize("role", Role)
def test_roles_limit_who_changes_a_workspace(ada, bob, team, role):
    workspaces.change_role(ada.principal, team.pk, bob.pk, role)
    attempts = [
        lambda: workspaces.change_workspace(here(bob, team), team.pk, name="Crew"),
        lambda: workspaces.remove_member(here(bob, team), team.pk, ada.pk),
        lambda: delete_workspace(here(bob, team), team.pk, Workspace.objects.get(pk=team.pk).name),
    ]
    passed = []
    for attempt in attempts:
        try:
            attempt()
            passed.append(True)
        except NotPermitted:
            passed.append(False)
    expected = {Role.VIEWER: [0, 0, 0], Role.MEMBER: [0, 0, 0], Role.MANAGER: [1, 0, 0], Role.OWNER: [1, 1, 1]}
    assert passed == expected[role]


def test_nobody_gives_a_role_above_their_own(ada, bob, team):
    workspaces.change_role(ada.principal, team.pk, bob.pk, Role.MANAGER)
    with pytest.raises(NotPermitted):
        workspaces.change_role(here(bob, team), team.pk, bob.pk, Role.OWNER)
    with pytest.raises(NotPermitted):
        workspaces.change_role(here(bob, team), team.pk, ada.pk, Role.VIEWER)


def test_the_last_owner_stays(ada, bob, team):
    for attempt in (
        lambda: workspaces.remove_member(ada.principal, team.pk, ada.pk),
        lambda: workspaces.change_role(ada.principal, team.pk, ada.pk, Role.MEMBER),
    ):
        with pytest.raises(WorkspaceRefused):
            attempt()
    workspaces.transfer_ownership(ada.principal, team.pk, bob.pk)
    assert roles(team) == {ada.email: "manager", bob.email: "owner"}
    workspaces.remove_member(ada.principal, team.pk, ada.pk)
    assert roles(team) == {bob.email: "owner"}


def test_personal_workspace_stays_its_owners_alone(ada, bob):
    home = ada.personal_workspace.pk
    with pytest.raises(WorkspaceRefused):
        workspaces.add_member(ada.principal, home, bob.email, Role.MEMBER)
    with pytest.raises(WorkspaceRefused):
        delete_workspace(ada.principal, home, ada.personal_workspace.name)
    with pytest.raises(WorkspaceRefused):
        workspaces.remove_member(ada.principal, home, ada.pk)


def test_removed_member_loses_sessions_and_keys(ada, bob, team, echo):
    own = commands.create_session(here(bob, team), echo, title="Ours").context
    workspaces.choose_workspace(bob.principal, team.pk)
    _, text = ApiKey.issue(bob, "ci", workspace_id=team.pk)
    assert Context.objects.visible_to(api_key_principal(f"Bearer {text}")).get() == own

    workspaces.remove_member(ada.principal, team.pk, bob.pk)
    with pytest.raises(BadCredentials):
        api_key_principal(f"Bearer {text}")
    now = User.objects.get(pk=bob.pk).principal
    assert now.workspace_id == bob.personal_workspace.pk
    assert not Context.objects.visible_to(now).exists()
    with pytest.raises(NotFound):
        workspaces.choose_workspace(now, team.pk)


def test_a_deleted_workspace_ends_with_what_it_holds(ada, bob, team, echo):
    own = commands.create_session(here(bob, team), echo, title="Ours").context
    kept = commands.create_session(bob.principal, echo, title="Mine").context
    _, text = ApiKey.issue(bob, "ci", workspace_id=team.pk)
    with pytest.raises(WorkspaceRefused):
        delete_workspace(ada.principal, team.pk, "Crew")

    delete_workspace(ada.principal, team.pk, "Team")
    with pytest.raises(BadCredentials):
        api_key_principal(f"Bearer {text}")
    assert not Workspace.objects.visible_to(ada.principal).filter(pk=team.pk).exists()
    deletion.delete_sessions_of_deleted_accounts()
    assert Context.objects.get(pk=own.pk).deleted_at is not None
    assert Context.objects.get(pk=kept.pk).deleted_at is None
    assert AuditEntry.objects.filter(action="workspace.deleted", workspace=team.pk).count() == 1


def test_a_key_changes_no_other_workspace(ada, team):
    _, text = ApiKey.issue(ada, "ci")
    caller = api_key_principal(f"Bearer {text}")
    assert Workspace.objects.visible_to(caller).get() == ada.personal_workspace
    with pytest.raises(NotFound):
        workspaces.change_workspace(caller, team.pk, name="Mine")
    with pytest.raises(NotPermitted):
        workspaces.choose_workspace(caller, ada.personal_workspace.pk)


# An e-mail address in any case is the login name; people work in workspaces, where their role says what they may.


def test_active_people_sign_in_by_address_and_password(ada):
    for typed in ("ada@example.org", "ADA@EXAMPLE.ORG", "Ada@Example.Org"):
        assert authenticate(username=typed, password="correct horse") == ada
    User.objects.create_user("grace@example.org")
    wrong = [("ada@example.org", "wrong horse"), ("nobody@example.org", "correct horse"), ("grace@example.org", "")]
    for address, password in wrong:
        assert authenticate(username=address, password=password) is None
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert authenticate(username="ada@example.org", password="correct horse") is None


def test_addresses_are_lower_case_and_one_persons(ada):
    assert User.objects.create_user("  Grace@Example.ORG ").email == "grace@example.org"
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.create_user("ADA@example.org")
    people, workspaces = User.objects.count(), Workspace.objects.count()
    for address in ("", "ada", "@", "@example.org", "ada@"):
        with pytest.raises(ValueError, match="is not an e-mail address"):
            User.objects.create_user(address)
    assert (User.objects.count(), Workspace.objects.count()) == (people, workspaces)


def test_each_role_permits_more_than_the_one_before():
    viewer, member, manager, owner = (PERMISSIONS[role] for role in Role)
    assert viewer < member < manager < owner == frozenset(Permission)


def test_the_role_is_that_in_the_current_workspace(ada, bob, team):
    workspaces.change_role(ada.principal, team.pk, bob.pk, Role.VIEWER)
    workspaces.choose_workspace(bob.principal, team.pk)
    caller = User.objects.get(pk=bob.pk).principal
    assert (caller.workspace_id, caller.can(Permission.READ), caller.can(Permission.SEND)) == (team.pk, True, False)
    workspaces.remove_member(ada.principal, team.pk, bob.pk)
    assert User.objects.get(pk=bob.pk).principal.workspace_id == bob.personal_workspace.pk


def test_everybody_owns_their_personal_workspace(ada):
    caller = ada.principal
    assert (caller.workspace_id, caller.role, caller.is_known) == (ada.personal_workspace.pk, Role.OWNER, True)
    assert (caller.may("anything"), caller.sender) == (True, f"user:{ada.pk}")
    assert (ANONYMOUS.is_known, ANONYMOUS.sender) == (False, "")
    for permission in Permission:
        assert (caller.can(permission), ANONYMOUS.can(permission)) == (True, False)
