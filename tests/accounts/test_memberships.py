"""People in workspaces: what their role permits, and who is in none."""

import pytest

from apps.accounts.authentication import BadCredentials, api_key_principal
from apps.accounts.models import ApiKey, Membership, User, Workspace
from apps.accounts.permissions import PERMISSIONS, Permission, Role
from apps.accounts.principals import ANONYMOUS


@pytest.fixture
def team(ada: User, bob: User) -> Workspace:
    team = Workspace.objects.create(name="Team")
    Membership.objects.create(workspace=team, user=ada, role=Role.OWNER)
    Membership.objects.create(workspace=team, user=bob, role=Role.VIEWER)
    return team


def fresh(user: User) -> User:
    return User.objects.get(pk=user.pk)


def test_everybody_owns_their_personal_workspace(ada):
    assert (ada.principal.workspace_id, ada.principal.role) == (ada.personal_workspace.pk, Role.OWNER)
    assert all(ada.principal.can(permission) for permission in Permission)


def test_each_role_permits_more_than_the_one_before():
    viewer, member, manager, owner = (PERMISSIONS[role] for role in Role)
    assert viewer < member < manager < owner == frozenset(Permission)


def test_the_role_is_that_in_the_current_workspace(bob, team):
    bob.current_workspace = team
    bob.save()
    caller = fresh(bob).principal
    assert (caller.workspace_id, caller.can(Permission.READ), caller.can(Permission.SEND)) == (team.pk, True, False)


def test_who_was_removed_is_in_their_personal_workspace_again(bob, team):
    bob.current_workspace = team
    bob.save()
    Membership.objects.filter(user=bob, workspace=team).delete()
    assert fresh(bob).principal == bob.personal_workspace.memberships.get().user.principal
    assert fresh(bob).principal.workspace_id == bob.personal_workspace.pk


def test_a_key_ends_with_the_membership(ada, team, django_assert_num_queries):
    _, text = ApiKey.issue(ada, "ci", workspace_id=team.pk)
    with django_assert_num_queries(1):
        caller = api_key_principal(f"Bearer {text}")
    assert (caller.workspace_id, caller.role) == (team.pk, Role.OWNER)
    Membership.objects.filter(user=ada, workspace=team).delete()
    with pytest.raises(BadCredentials):
        api_key_principal(f"Bearer {text}")


def test_an_anonymous_caller_has_no_role():
    assert not any(ANONYMOUS.can(permission) for permission in Permission)
