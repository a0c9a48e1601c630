"""The menu at a branch point: its branches by name, to rename and to delete."""

import uuid

import pytest

from agentkit import Completed
from apps.engine import accept
from apps.features.forks import forking
from apps.features.sessions import commands
from apps.record.models import Context, Message
from tests.record.lineages import place_before
from tests.working import begin, end

pytestmark = pytest.mark.django_db


@pytest.fixture
def tell(ada, echo, said):
    """Say something, in a new session or in one's own, and get the answer."""

    def told(words, context=None):
        more = {"contextId": context.context_id} if context else {}
        sent = accept.accept(ada.principal, echo, said(words, **more))
        end(begin(sent.run), Completed("done"))
        return Context.objects.get(pk=sent.context)

    return told


@pytest.fixture
def talk(tell):
    return tell("second", tell("first"))


def shown(browser, session, words):
    index = Message.objects.get(context=session, parts__0__text=words).index
    answer = browser.get(f"/sessions/{session.pk}/branches?at={index}")
    return answer.context["branches"] if answer.status_code == 200 else answer.status_code


def test_branches_have_the_names_given_or_made(ada, tell, talk, ada_browser):
    at = place_before(talk, "second")
    edited = tell("another way", forking.fork(ada.principal, talk, at, reason="edit"))
    retried = tell("second", forking.fork(ada.principal, talk, at, reason="retry"))
    fork = tell("elsewhere", forking.fork(ada.principal, talk, at, reason="fork"))
    commands.rename_session(ada.principal, fork.pk, "The best one")
    names = [one.name for one in shown(ada_browser, edited, "another way")]
    assert names == ["Original: second", "Edited: another way", "Retry with Echo", "The best one"]
    assert [one.is_here for one in shown(ada_browser, retried, "second")] == [False, False, True, False]


def test_it_says_how_many_branches_go_with_one(ada, tell, talk, ada_browser):
    edited = tell("another way", forking.fork(ada.principal, talk, place_before(talk, "second"), reason="edit"))
    tell("after it", forking.fork(ada.principal, edited, edited.last_event, reason="fork"))
    assert [one.continuing for one in shown(ada_browser, talk, "second")] == [0, 1]


def test_only_branch_points_of_ones_own_have_one(tell, talk, ada_browser, bob_browser):
    assert shown(ada_browser, talk, "first") == 404
    assert shown(bob_browser, talk, "first") == 404
    assert ada_browser.get(f"/sessions/{talk.pk}/branches?at=x").status_code == 404
    assert ada_browser.get(f"/sessions/{uuid.uuid4()}/branches?at=1").status_code == 404
