"""The page for a credential: for its person only, once."""

import pytest
from django.test import Client
from django.utils import timezone

from agentkit import AuthRequired
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.engine import accept
from apps.features.credentials import requests
from apps.features.credentials.models import Credential, CredentialRequest
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Context, Event, Task
from tests.nonces import without_nonces
from tests.working import begin, end, state_of

pytestmark = pytest.mark.django_db

SECRET = "k-5f1d2a90-secret"


@pytest.fixture(autouse=True)
def published(monkeypatch):
    runs = []
    monkeypatch.setattr(requests, "publish", runs.append)
    return runs


@pytest.fixture
def calendar(db):
    return register_hosted("calendar", "tests.engine.agents:Calendar", access=Agent.Access.PUBLIC)


@pytest.fixture
def asked(ada, calendar, said):
    def ask(principal=None, auth_type="api_key", words="I need your key.", service="calendar"):
        sent = accept.accept(principal or ada.principal, calendar, said("open it"))
        end(begin(sent.run), AuthRequired(words, service=service, auth_type=auth_type))
        return Task.objects.get(pk=sent.task)

    return ask


def link_of(task):
    return "/credentials/" + task.status_message["metadata"]["url"].rpartition("/")[2]


def test_what_is_given_lets_the_task_go_on_and_leads_back_to_the_session(ada_browser, ada, asked, published):
    task = asked()
    answer = ada_browser.post(link_of(task), {"answer": "give", "secret": f" {SECRET}\n"})
    assert (answer.status_code, answer["Location"]) == (302, f"/sessions/{task.context_id}")
    assert Credential.objects.get().secret == SECRET
    assert published == [Run.objects.get(turn=2).pk]
    assert state_of(task.pk) == "working"
    assert projection.differences(task.context_id) == []
    given = {"answer": "give", "username": " ada ", "secret": " open sesame "}
    ada_browser.post(link_of(asked(auth_type="basic")), given)
    newest = Credential.objects.latest("pk")
    assert (newest.username, newest.secret) == ("ada", " open sesame ")


def test_what_is_no_credential_is_refused_in_a_sentence_and_not_repeated(ada_browser, asked, published):
    for auth_type, given, told in [
        ("api_key", {}, "Fill in the field"),
        ("api_key", {"secret": " \n"}, "Fill in the field"),
        ("bearer", {"secret": "twofold-secret\nlines"}, "line breaks"),
        ("bearer", {"secret": "nul\x00"}, "line breaks"),
        ("bearer", {"secret": "x" * 10_001}, "10,000 characters"),
        ("basic", {"secret": "x"}, "Enter the user name"),
        ("basic", {"username": "a:b", "secret": "x"}, "a colon"),
        ("basic", {"username": "a"}, "Fill in the field"),
    ]:
        task = asked(auth_type=auth_type)
        answer = ada_browser.post(link_of(task), {"answer": "give", **given})
        assert answer.status_code == 422, auth_type
        assert told in answer.text, auth_type
        assert "twofold-secret" not in answer.text, auth_type
        assert not Credential.objects.exists(), auth_type
        assert published == [], auth_type
        assert ada_browser.get(link_of(task)).status_code == 200, "the link is as good as before"


def test_a_link_that_was_used_says_so_and_gives_nothing(ada_browser, asked, published):
    task = asked()
    ada_browser.post(link_of(task), {"answer": "give", "secret": SECRET})
    again = ada_browser.post(link_of(task), {"answer": "give", "secret": "another"}, follow=True)
    assert "Credential sent" in again.text
    assert "no longer works" in again.text
    assert Credential.objects.get().secret == SECRET
    assert len(published) == 1


def test_who_declines_ends_the_task_and_a_form_of_nobodys_does_nothing(ada_browser, asked):
    task = asked()
    for nonsense in ({}, {"answer": "open"}, {"answer": ["give", ""]}):
        assert ada_browser.post(link_of(task), nonsense).status_code == 200
        assert state_of(task.pk) == "auth-required"
    assert ada_browser.post(link_of(task), {"answer": "decline"}).status_code == 302
    assert state_of(task.pk) == "failed"
    assert "Request declined" in ada_browser.get(link_of(task)).text


def test_a_link_that_is_too_old_says_so_and_makes_a_new_one_for_the_owner(ada_browser, asked):
    task = asked()
    CredentialRequest.objects.update(expires_at=timezone.now())
    old = ada_browser.get(link_of(task))
    assert old.status_code == 410
    assert "This link has expired" in old.text
    answer = ada_browser.post(link_of(task), {"answer": "give", "secret": SECRET})
    assert answer["Location"] == link_of(task), "which says why"
    new = ada_browser.post(link_of(task), {"answer": "renew"})["Location"]
    assert new != link_of(task)
    assert "This link has expired" in ada_browser.get(link_of(task)).text
    assert ada_browser.get(new).status_code == 200
    ada_browser.post(new, {"answer": "give", "secret": SECRET})
    assert Credential.objects.get().secret == SECRET


def test_somebody_elses_link_is_not_found(bob_browser, asked):
    task = asked()
    unknown, foreign = bob_browser.get("/credentials/" + "x" * 43), bob_browser.get(link_of(task))
    assert unknown.status_code == foreign.status_code == 404
    assert without_nonces(unknown.content) == without_nonces(foreign.content)
    assert bob_browser.post(link_of(task), {"answer": "give", "secret": SECRET}).status_code == 404
    assert state_of(task.pk) == "auth-required"


def test_who_is_not_signed_in_signs_in_first(client, asked, ada):
    task = asked()
    for answer in (client.get(link_of(task)), client.post(link_of(task), {"answer": "give", "secret": SECRET})):
        assert answer["Location"] == f"/sign-in?next={link_of(task)}"
    assert not Credential.objects.exists()
    signed_in = client.post(
        f"/sign-in?next={link_of(task)}",
        {"username": ada.email, "password": "correct horse", "next": link_of(task)},
    )
    assert signed_in["Location"] == link_of(task)


def test_a_task_of_nobodys_is_answered_by_who_has_the_link(client, asked):
    task = asked(ANONYMOUS)
    assert "only for this task" in client.get(link_of(task)).text
    answer = client.post(link_of(task), {"answer": "give", "secret": SECRET}, follow=True)
    assert "Credential sent" in answer.text
    assert (Credential.objects.get().user, Credential.objects.get().task) == (None, task)

    task = asked(ANONYMOUS)
    CredentialRequest.objects.update(expires_at=timezone.now())
    page = client.get(link_of(task)).text
    assert "Cancel the task" in page
    assert "renew" not in page
    assert client.post(link_of(task), {"answer": "renew"})["Location"] == link_of(task)
    assert client.get(link_of(task)).status_code == 410


def test_another_site_can_neither_send_the_form_nor_frame_the_page(ada, asked):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(ada)
    task = asked()
    assert strict.post(link_of(task), {"answer": "decline"}).status_code == 403
    assert state_of(task.pk) == "auth-required"
    page = strict.get(link_of(task))
    assert page["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in page["Content-Security-Policy"]
    assert page["Referrer-Policy"] == "same-origin"
    assert "no-store" in page["Cache-Control"]


def test_what_an_agent_says_is_shown_as_text_whatever_it_is(ada_browser, asked):
    task = asked(words="<b>Paste</b> your <script>password</script>", service="<i>bank</i>")
    page = ada_browser.get(link_of(task)).text
    assert "&lt;b&gt;Paste&lt;/b&gt;" in page
    assert "&lt;i&gt;bank&lt;/i&gt;" in page
    assert "<script>password" not in page


def test_the_conversation_shows_a_button_instead_of_a_field_and_no_secret_ever(ada_browser, asked):
    task = asked()
    page = ada_browser.get(f"/sessions/{task.context_id}").text
    assert link_of(task) in page
    assert "wantsCredential" in page
    assert page.count(link_of(task)) == 1, "the words of the link are in the button"
    ada_browser.post(link_of(task), {"answer": "give", "secret": SECRET})
    assert SECRET not in ada_browser.get(f"/sessions/{task.context_id}").text
    assert SECRET not in str([list(model.objects.values()) for model in (Event, Task, Context, Run)])


@pytest.mark.django_db(transaction=True)
def test_people_see_their_own_credentials_and_take_them_back(client, ada_browser, bob_browser, ada, asked):
    assert client.get("/settings/credentials")["Location"].startswith("/sign-in")
    assert client.post("/settings/credentials/1/revoke")["Location"].startswith("/sign-in")
    ada_browser.post(link_of(asked()), {"answer": "give", "secret": SECRET})
    page = ada_browser.get("/settings/credentials").text
    assert "API key for Calendar" in page
    assert "Never used" in page
    assert SECRET not in page
    assert "API key for Calendar" not in bob_browser.get("/settings/credentials").text
    number = Credential.objects.get().pk
    assert bob_browser.post(f"/settings/credentials/{number}/revoke").status_code == 404
    assert Credential.objects.usable().exists()
    gone = ada_browser.post(f"/settings/credentials/{number}/revoke", follow=True)
    assert "API key for Calendar" not in gone.text
    assert Credential.objects.get().secret == ""
    assert ada_browser.post(f"/settings/credentials/{number}/revoke").status_code == 404


def test_of_a_task_that_another_called_for_people_see_the_conversation_of_that_one(
    ada_browser, ada, calendar, echo, said
):
    parent = accept.accept(ada.principal, echo, said("plan my week"))
    sent = accept.accept(ada.principal, calendar, said("open it"), parent=parent.task)
    end(begin(sent.run), AuthRequired("I need your key.", service="calendar"))
    link = link_of(Task.objects.get(pk=sent.task))
    assert "plan my week" in ada_browser.get(link).text
    answer = ada_browser.post(link, {"answer": "give", "secret": SECRET})
    assert answer["Location"] == f"/sessions/{parent.context}"
