"""Who declares which guardrails, what is refused, and what people see of them."""

import datetime

import pytest
from django.urls import reverse
from django.utils import timezone

from apps.accounts.audit_models import AuditEntry
from apps.accounts.models import ApiKey
from apps.accounts.permissions import Role
from apps.agents.models import Agent
from apps.optional.guardrails import current, decisions, rails
from apps.optional.guardrails.models import Guardrail, RailDecision
from apps.optional.guardrails.rails import OnlyYourAgents
from apps.record.errors import InvalidFields
from tests.members import member

pytestmark = pytest.mark.django_db
PERSONAL = {"categories": ["email"], "action": "redact"}


def make(principal, **fields):
    return rails.save(principal, Guardrail(**{"name": "Personal data", **PERSONAL, **fields}))


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("categories", {"categories": []}),
        ("words", {"check_kind": "patterns"}),
        ("mostCharacters", {"check_kind": "size", "action": "block"}),
        ("question", {"check_kind": "model", "action": "block", "question": " "}),
        ("action", {"check_kind": "size", "most_files": 1}),
        ("agents", {"agents": ["nobody"]}),
    ],
)
def test_incomplete_guardrail_is_refused(ada, field, wrong):
    with pytest.raises(InvalidFields) as refused:
        make(ada.principal, **wrong)
    assert [place for place, _ in refused.value.violations] == [field]
    assert not Guardrail.objects.exists()


def test_plan_is_checked_on_its_way_in_alone(ada, echo):
    Agent.objects.filter(pk=echo.pk).update(kind=Agent.Kind.PLAN)
    with pytest.raises(InvalidFields):
        make(ada.principal, agents=["echo"])
    assert make(ada.principal, agents=["echo"], direction="in").pk


def test_members_declare_for_their_own_agents(ada, bob, echo, countdown):
    guest = member(bob, ada, Role.MEMBER)
    Agent.objects.filter(pk=echo.pk).update(owner=bob, workspace=guest.workspace_id)
    for agents in ([], ["countdown"], ["echo", "countdown"]):
        with pytest.raises(OnlyYourAgents):
            make(guest, agents=agents)
    made = make(guest, agents=["echo"])
    assert Guardrail.objects.visible_to(ada.principal).get() == made


def test_members_see_only_their_own(ada, bob):
    make(ada.principal)
    guest = member(bob, ada, Role.MEMBER)
    assert not Guardrail.objects.visible_to(guest).exists()
    assert Guardrail.objects.visible_to(member(bob, ada, Role.MANAGER)).exists()


def test_changes_are_in_the_audit(ada):
    made = make(ada.principal, check_kind="patterns", words="Project Lion")
    rails.TURN_OFF.perform(ada.principal, made)
    rails.DELETE.perform(ada.principal, made)
    entries = AuditEntry.objects.filter(group="guardrail").order_by("number")
    assert [one.action for one in entries] == ["guardrail.created", "guardrail.changed", "guardrail.deleted"]
    assert "Lion" not in str([one.details for one in entries])


def test_change_counts_at_once_here(ada, echo):
    made = make(ada.principal)
    assert [one.row for one in current.rails_now()] == [made]
    rails.TURN_OFF.perform(ada.principal, made)
    assert current.rails_now() == []


def decided(rail, ms, days=0, **fields):
    at = timezone.now() - datetime.timedelta(days=days)
    known = {"context": "0" * 32, "direction": "in", "done": "redact", "count": 1}
    return RailDecision.objects.create(rail=rail, ms=ms, at=at, **{**known, **fields})


def test_numbers_are_of_a_month(ada):
    rail = make(ada.principal)
    for ms in range(1, 101):
        decided(rail, ms)
    decided(rail, 9_999, days=31)
    decided(rail, 5, done="fail")
    found = decisions.numbers(rail)
    assert (found.by_done, found.p50, found.p95) == ({"redact": 100, "fail": 1}, 50, 95)


def test_old_decisions_are_deleted(ada):
    rail = make(ada.principal)
    kept = decided(rail, 1, days=89)
    decided(rail, 1, days=91)
    decisions.sweep()
    assert list(RailDecision.objects.all()) == [kept]


@pytest.mark.django_db(transaction=True)
def test_trial_saves_nothing(ada, client):
    key = ApiKey.issue(ada, "tests")[1]
    rail = make(ada.principal, is_on=False)
    address = reverse("api:guardrail-try", args=[rail.pk])
    said = {"text": "Ask joe@example.org", "direction": "in"}
    answer = client.post(address, said, content_type="application/json", headers={"authorization": f"Bearer {key}"})
    assert (answer.status_code, answer.json()["effect"]) == (200, "redact")
    assert (answer.json()["text"], answer.json()["counts"]) == ("Ask [e-mail address]", {"email": 1})
    assert not RailDecision.objects.exists()


def test_page_tries_unsaved_form(ada, client):
    client.force_login(ada)
    form = {"name": "Lions", "direction": "in", "check_kind": "patterns", "words": "lion", "action": "block"}
    form |= {"seconds": 5, "if_fails": "block", "decided_by": "sender", "order": 1, "sample": "a lion", "way": "in"}
    shown = client.post(reverse("web:settings-new-guardrail-try"), form)
    assert (shown.status_code, shown.context["trial"].effect) == (200, "block")
    assert not Guardrail.objects.exists()
    assert f'action="{reverse("web:settings-new-guardrail")}"' in shown.text  # where it is saved afterwards
    refused = client.post(reverse("web:settings-new-guardrail-try"), {**form, "patterns": "("})
    assert "patterns" in refused.context["form"].errors


def test_agent_page_names_what_holds(ada, bob, echo, client):
    make(ada.principal, name="Ada's rule")
    make(bob.principal, name="Bob's rule")
    client.force_login(ada)
    shown = client.get(reverse("web:agent", args=["echo"])).text
    assert "Ada&#x27;s rule" in shown
    assert "Bob&#x27;s rule" not in shown


def test_agent_page_hides_names_of_other_agents(ada, bob, echo, countdown, client):
    make(ada.principal, name="Ada's rule", agents=["echo", "countdown"])
    member(bob, ada, Role.MEMBER)
    for person, is_named in ((ada, True), (bob, False)):
        client.force_login(person)
        shown = client.get(reverse("web:agent", args=["echo"])).text
        assert ("for echo, countdown" in shown) is is_named
        assert "Ada&#x27;s rule" in shown
