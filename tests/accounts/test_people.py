"""An e-mail address in any case is the login name; everybody has a workspace."""

import pytest
from django.contrib.auth import authenticate
from django.db import IntegrityError, transaction

from apps.accounts.models import User, Workspace
from apps.accounts.principals import ANONYMOUS

pytestmark = pytest.mark.django_db


def test_who_is_active_signs_in_by_address_in_any_case_and_password(ada):
    for typed in ("ada@example.org", "ADA@EXAMPLE.ORG", "Ada@Example.Org"):
        assert authenticate(username=typed, password="correct horse") == ada
    User.objects.create_user("grace@example.org")
    wrong = [("ada@example.org", "wrong horse"), ("nobody@example.org", "correct horse"), ("grace@example.org", "")]
    for address, password in wrong:
        assert authenticate(username=address, password=password) is None
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert authenticate(username="ada@example.org", password="correct horse") is None


def test_an_address_is_kept_in_lower_case_and_belongs_to_one_person(ada):
    assert User.objects.create_user("  Grace@Example.ORG ").email == "grace@example.org"
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.create_user("ADA@example.org")


def test_what_is_no_address_makes_nobody():
    for address in ("", "ada", "@", "@example.org", "ada@"):
        with pytest.raises(ValueError, match="is not an e-mail address"):
            User.objects.create_user(address)
    assert not User.objects.exists()
    assert not Workspace.objects.exists()


def test_everybody_has_a_workspace_of_their_own(ada, bob):
    operator = User.objects.create_superuser("root@example.org", "let me in")
    owners = [workspace.personal_of for workspace in Workspace.objects.order_by("pk")]
    assert owners == [ada, bob, operator]
    assert ada.personal_workspace.name == "Ada"
    assert operator.personal_workspace.name == "root"


def test_an_operator_may_do_everything_and_a_member_nothing_in_admin(ada):
    operator = User.objects.create_superuser("root@example.org", "let me in")
    assert operator.is_staff
    assert operator.has_perm("agents.change_agent")
    assert not ada.is_staff
    assert not ada.has_perm("agents.change_agent")


def test_a_person_calls_as_a_principal_with_every_right_of_their_own_and_nobody_as_no_known_sender(ada):
    principal = ada.principal
    assert (principal.user_id, principal.workspace_id) == (ada.pk, ada.personal_workspace.pk)
    assert principal.is_known
    assert principal.may("anything")
    assert principal.sender == f"user:{ada.pk}"
    assert (ANONYMOUS.is_known, ANONYMOUS.sender) == (False, "")
