"""An e-mail address in any case is the login name; people work in workspaces, where their role says what they may."""

import pytest
from django.contrib.auth import authenticate
from django.db import IntegrityError, transaction

from apps.accounts.models import Membership, User, Workspace
from apps.accounts.permissions import PERMISSIONS, Permission, Role

pytestmark = pytest.mark.django_db


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


@pytest.fixture
def team(ada: User, bob: User) -> Workspace:
    """Bob works in it, as a viewer."""
    team = Workspace.objects.create(name="Team")
    Membership.objects.create(workspace=team, user=ada, role=Role.OWNER)
    Membership.objects.create(workspace=team, user=bob, role=Role.VIEWER)
    bob.current_workspace = team
    bob.save()
    return team


def fresh(user: User) -> User:
    return User.objects.get(pk=user.pk)


def test_the_role_is_that_in_the_current_workspace(bob, team):
    caller = fresh(bob).principal
    assert (caller.workspace_id, caller.can(Permission.READ), caller.can(Permission.SEND)) == (team.pk, True, False)
    Membership.objects.filter(user=bob, workspace=team).delete()
    assert fresh(bob).principal.workspace_id == bob.personal_workspace.pk
