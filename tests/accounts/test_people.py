"""People: an e-mail address is the login name, whatever its case, and everybody has a workspace of their own."""

import pytest
from django.contrib.auth import authenticate
from django.db import IntegrityError, transaction

from apps.accounts.models import User, Workspace
from apps.accounts.principals import ANONYMOUS

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("typed", ["ada@example.org", "ADA@EXAMPLE.ORG", "Ada@Example.Org"])
def test_the_login_name_is_the_address_whatever_its_case(ada, typed):
    assert authenticate(username=typed, password="correct horse") == ada


def test_a_wrong_password_or_an_unknown_address_lets_nobody_in(ada):
    assert authenticate(username="ada@example.org", password="wrong horse") is None
    assert authenticate(username="nobody@example.org", password="correct horse") is None


def test_a_person_who_is_not_active_is_not_let_in(ada):
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert authenticate(username="ada@example.org", password="correct horse") is None


def test_an_address_is_kept_in_lower_case_and_belongs_to_one_person(ada):
    assert User.objects.create_user("  Grace@Example.ORG ").email == "grace@example.org"
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.create_user("ADA@example.org")


@pytest.mark.parametrize("address", ["", "ada", "@", "@example.org", "ada@"])
def test_what_is_no_address_makes_nobody(address):
    with pytest.raises(ValueError, match="is not an e-mail address"):
        User.objects.create_user(address)
    assert not User.objects.exists()
    assert not Workspace.objects.exists()


def test_a_person_made_without_a_password_cannot_sign_in():
    User.objects.create_user("grace@example.org")
    assert authenticate(username="grace@example.org", password="") is None


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


def test_a_person_calls_as_a_principal_with_every_right_of_their_own(ada):
    principal = ada.principal
    assert (principal.user_id, principal.workspace_id) == (ada.pk, ada.personal_workspace.pk)
    assert principal.is_known
    assert principal.may("anything")
    assert principal.sender == f"user:{ada.pk}"


def test_nobody_in_particular_is_no_known_sender():
    assert not ANONYMOUS.is_known
    assert ANONYMOUS.sender == ""
