"""Operators' rights: who has them, and the second factor that they need where MFA_FOR_OPERATORS is on.

That each door asks for it is shown in `tests/isolation/test_second_factor.py`.
"""

import re
from pathlib import Path

import pytest
from allauth.mfa.models import Authenticator
from asgiref.sync import async_to_sync
from django.test import Client

from agentkit.llm import approvals
from apps.accounts.models import ApiKey, User
from apps.engine.turns.questions import slot_of
from apps.record.models import Task
from tests.accounts.test_oauth import by_itself, program
from tests.accounts.test_second_factors import SECURITY, options_in
from tests.clients import telling
from tests.clients.calling import Caller
from tests.clients.passkeys import Passkey
from tests.conversations.pages.test_approvals import a_call
from tests.members import member, operator

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["program"]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def boss(settings):
    """A superuser who has no second factor, where operators need one."""
    settings.MFA_FOR_OPERATORS = True
    return User.objects.create_superuser("boss@example.org", "a long password")


@pytest.fixture
def asks(bob, echo):
    """Bob's task that needs two people."""
    return Task.objects.get(pk=telling.asked(bob, echo, slot_of(approvals.question([a_call(needs=2)]))).task)


def add_factor(person):
    Authenticator.objects.create(user=person, type=Authenticator.Type.TOTP, data={"secret": "x"})


def browser_of(person):
    browser = Client()
    browser.force_login(person)
    return browser


def approvable(caller):
    answer = async_to_sync(caller.get)("/approvals")
    assert answer.status == 200, answer.content
    return [one["taskId"] for one in answer.body["items"]]


def test_older_key_has_no_operators_right(boss, asks):
    older = Caller(ApiKey.issue(boss, "older")[1])
    assert approvable(older) == []
    add_factor(boss)
    assert approvable(older) == []
    newer = Caller(ApiKey.issue(boss, "newer")[1])
    assert approvable(newer) == [str(asks.pk)]


def test_program_has_no_operators_right(boss, asks, program):
    add_factor(boss)
    type(program).objects.update(owner=boss)
    assert approvable(Caller(by_itself())) == []


def test_first_second_factor_signs_other_browsers_out(boss):
    here, other = browser_of(boss), browser_of(boss)
    asked = here.get(f"{SECURITY}/passkeys/add", follow=True)
    page = here.post(asked.redirect_chain[-1][0], {"password": "a long password"}, follow=True)
    made = Passkey().created(options_in(page)["creation_options"])
    here.post(f"{SECURITY}/passkeys/add", {"credential": made})
    assert here.get("/admin/").status_code == 200
    assert other.get("/inbox")["Location"].startswith("/sign-in")


def test_operator_without_permission_decides_about_nothing(bob, asks):
    plain, approver = operator("plain@example.org"), operator("approver@example.org", "approve_task")
    assert list(Task.objects.approvable_by(plain.principal)) == []
    assert list(Task.objects.approvable_by(approver.principal)) == [asks]
    User.objects.filter(pk=approver.pk).update(is_staff=False)
    assert list(Task.objects.approvable_by(User.objects.get(pk=approver.pk).principal)) == []


def test_member_decides_in_their_workspace_alone(ada, bob, asks):
    assert list(Task.objects.approvable_by(ada.principal)) == []
    assert list(Task.objects.approvable_by(member(ada, of=bob))) == [asks]


def test_only_the_right_reads_whether_somebody_is_operator():
    """So that no place forgets the second factor: ask `is_operator`, `may_operate` or `has_perm`."""
    may = {"apps/accounts/models.py", "apps/accounts/people/sign_in.py", "apps/accounts/people/erasure.py"}
    found = set()
    for path in (one for part in ("apps", "platform", "examples") for one in (ROOT / part).rglob("*.py")):
        if re.search(r"\w\.is_staff\b", path.read_text()):
            found.add(str(path.relative_to(ROOT)))
    assert found - may == set()
    shown = {
        str(path.relative_to(ROOT)): len(re.findall(r"\bis_staff\b", path.read_text()))
        for path in (ROOT / "templates").rglob("*.html")
        if "is_staff" in path.read_text()
    }
    assert shown == {"templates/web/shell.html": 1}  # the link to admin, which leads to where they add a factor
