"""Harmless changes of a card apply at once; others wait for an operator."""

import datetime

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.agents.models import Agent
from apps.remote import card_verification, registration
from apps.remote.models import RemoteAgent
from tests.remote.card_server import WELL_KNOWN

pytestmark = pytest.mark.django_db

KEY = {"key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}}


@pytest.fixture
def translator(cards_at):
    cards_at.pages[WELL_KNOWN] = cards_at.card()
    return registration.register_remote("translator", url=cards_at.url)


def refreshed(agent):
    told = registration.refresh_card(agent)
    return told.outcome, Agent.objects.select_related("remote__proposed", "current_version").get(pk=agent.pk)


def interface(url, binding="JSONRPC", version="1.0", **more):
    return {"url": url, "protocolBinding": binding, "protocolVersion": version, **more}


def test_a_card_that_says_the_same_makes_no_version_and_need_not_be_sent(cards_at, translator):
    outcome, agent = refreshed(translator)
    assert (outcome, agent.versions.count()) == ("unchanged", 1)
    told = {"ETag": '"one"', "Last-Modified": "Sat, 21 Nov 2026 10:00:00 GMT"}
    cards_at.pages[WELL_KNOWN] = (200, told, cards_at.card())
    refreshed(translator)
    before = RemoteAgent.objects.get().refreshed_at
    outcome, agent = refreshed(translator)
    [path, headers] = cards_at.requests[-1]
    assert (path, headers["if-none-match"]) == (WELL_KNOWN, '"one"')
    assert headers["if-modified-since"] == "Sat, 21 Nov 2026 10:00:00 GMT"
    assert (outcome, agent.versions.count()) == ("unchanged", 1)
    assert agent.remote.refreshed_at > before


def test_a_harmless_change_counts_at_once_and_what_operators_set_stays(cards_at, translator):
    Agent.objects.update(access="public", time_limit=5, on_busy="reject", is_enabled=True, cost=2)
    skill = {"id": "proofread", "name": "Proofread", "description": "Finds mistakes.", "tags": ["language"]}
    changed = cards_at.card(description="Translates and proofreads.", version="2.2.0")
    changed["skills"].append(skill)
    cards_at.pages[WELL_KNOWN] = changed
    outcome, agent = refreshed(translator)
    assert (outcome, agent.description, agent.version) == ("updated", "Translates and proofreads.", "2.2.0")
    assert [one["id"] for one in agent.skills] == ["translate", "proofread"]
    assert [one.number for one in agent.versions.all()] == [2, 1]
    assert agent.current_version.number == 2
    assert agent.current_version.content["card"] == changed
    assert (agent.access, agent.time_limit, agent.on_busy, agent.cost) == ("public", 5, "reject", 2)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        (lambda url: {"supportedInterfaces": [interface(f"{url}/other")]}, "another interface"),
        (lambda url: {"supportedInterfaces": [interface(f"{url}/a2a", "HTTP+JSON")]}, "another interface"),
        (lambda url: {"supportedInterfaces": [interface(f"{url}/a2a", version="0.3")]}, "another interface"),
        (lambda url: {"supportedInterfaces": [interface(f"{url}/a2a", tenant="x")]}, "another interface"),
        (lambda url: {"securitySchemes": KEY}, "another security scheme"),
        (lambda url: {"securityRequirements": [{"schemes": {"key": {"list": []}}}]}, "another security scheme"),
    ],
)
def test_a_change_of_where_it_is_or_what_it_wants_waits(cards_at, translator, fields, what):
    cards_at.pages[WELL_KNOWN] = cards_at.card(description="New.", **fields(cards_at.url))
    outcome, agent = refreshed(translator)
    assert (outcome, agent.description, agent.current_version.number) == ("waiting", "Translates texts.", 1)
    assert agent.remote.origin == cards_at.url
    assert agent.remote.proposed.note == f"Needs approval: {what}."
    outcome, agent = refreshed(translator)
    assert (outcome, agent.versions.count()) == ("waiting", 2)


def test_another_order_of_interfaces_is_harmless(cards_at):
    both = [interface(f"{cards_at.url}/a2a"), interface(f"{cards_at.url}/a2a", "HTTP+JSON")]
    cards_at.pages[WELL_KNOWN] = cards_at.card(supportedInterfaces=both)
    agent = registration.register_remote("translator", url=cards_at.url)
    cards_at.pages[WELL_KNOWN] = cards_at.card(supportedInterfaces=both[::-1])
    assert refreshed(agent)[0] == "updated"


@pytest.fixture
def moved(cards_at, translator):
    """An agent whose new card names another origin, which waits for approval."""
    cards_at.pages[WELL_KNOWN] = cards_at.card(
        name="Moved", supportedInterfaces=[interface("https://elsewhere.example/a2a")]
    )
    return refreshed(translator)[1]


def test_an_operator_approves_and_the_agent_is_what_waited(moved, ada):
    version = registration.approve_card(moved, ada)
    agent = Agent.objects.get()
    assert (agent.name, agent.current_version) == ("Moved", version)
    assert agent.remote.origin == "https://elsewhere.example:443"
    assert (agent.remote.proposed, agent.versions.first().note) == (None, "Needs approval: another origin, interface.")
    entries = AuditEntry.objects.filter(group="card").order_by("number")
    assert [(one.action, one.actor_name) for one in entries] == [
        (AuditAction.CARD_PROPOSED, "Parley"),
        (AuditAction.CARD_APPROVED, ada.email),
    ]
    assert refreshed(agent)[0] == "unchanged"
    with pytest.raises(ValidationError, match="Nothing waits"):
        registration.approve_card(agent, ada)


def test_an_operator_declines_and_the_same_is_not_proposed_again(cards_at, moved, ada):
    registration.decline_card(moved, ada)
    outcome, agent = refreshed(moved)
    assert (outcome, agent.name, agent.remote.proposed, agent.versions.count()) == ("unchanged", "Translator", None, 2)
    cards_at.pages[WELL_KNOWN] = cards_at.card(name="Moved", supportedInterfaces=[interface("https://third.example/")])
    outcome, agent = refreshed(moved)
    assert (outcome, agent.versions.count()) == ("waiting", 3)


def test_what_was_looked_at_is_what_is_approved(cards_at, moved, ada):
    looked_at = moved.remote.proposed
    cards_at.pages[WELL_KNOWN] = cards_at.card(supportedInterfaces=[interface("https://evil.example/")])
    refreshed(moved)
    with pytest.raises(ValidationError, match="changed again meanwhile"):
        registration.approve_card(moved, ada, looked_at)
    assert Agent.objects.get().remote.origin == cards_at.url


def test_a_card_that_is_again_what_it_was_leaves_nothing_to_approve(cards_at, moved):
    cards_at.pages[WELL_KNOWN] = cards_at.card()
    outcome, agent = refreshed(moved)
    assert (outcome, agent.remote.proposed) == ("unchanged", None)


def test_a_card_that_fails_leaves_everything_as_it_was_and_does_not_even_wait(cards_at, translator):
    good = cards_at.pages[WELL_KNOWN]
    for page, sentence in (
        ((503, {}, b""), "status 503"),
        (b"<html>", "something else than a card"),
        ({"skills": []}, "names no address"),
        (cards_at.card(supportedInterfaces=[interface("http://169.254.169.254/")]), "supportedInterfaces"),
    ):
        cards_at.pages[WELL_KNOWN] = page
        outcome, agent = refreshed(translator)
        assert (outcome, agent.name, agent.versions.count()) == ("failed", "Translator", 1)
        assert agent.remote.proposed is None
        assert sentence in agent.remote.card_error
    cards_at.pages[WELL_KNOWN] = good
    outcome, agent = refreshed(translator)
    assert (outcome, agent.remote.card_error) == ("unchanged", "")


@pytest.mark.services("each card has one reader")
def test_due_cards_are_looked_at_once_each_and_are_due_again_later(cards_at, translator):
    now = timezone.now()
    assert registration.refresh_due_cards() == 0
    RemoteAgent.objects.update(refresh_at=now - datetime.timedelta(seconds=1))
    read_too_early = RemoteAgent.objects.due(timezone.now()).get()
    cards_at.pages[WELL_KNOWN] = cards_at.card(description="Other.")
    assert registration.refresh_due_cards() == 1
    assert registration.refresh_due_cards() == 0
    assert not registration._claim_refresh(read_too_early)  # another process's claim
    remote = RemoteAgent.objects.get()
    assert remote.agent.description == "Other."
    assert 700 < (remote.refresh_at - now).total_seconds() < 1100


def test_a_fallback_that_is_gone_keeps_no_card_from_counting(cards_at, translator):
    other = registration.register_remote("other", url=cards_at.url)
    registration.register_remote("translator", url=cards_at.url, update=True, fallbacks=["other"])
    other.delete()
    cards_at.pages[WELL_KNOWN] = cards_at.card(description="Translates and proofreads.")
    outcome, agent = refreshed(translator)
    assert (outcome, agent.description, agent.fallbacks) == ("updated", "Translates and proofreads.", ["other"])
    cards_at.pages[WELL_KNOWN] = cards_at.card(securitySchemes=KEY)
    assert refreshed(translator)[0] == "waiting"
    registration.approve_card(translator, None)
    assert refreshed(translator)[0] == "unchanged"


def test_one_card_that_breaks_the_reader_keeps_no_other_from_being_read(cards_at, translator, monkeypatch, caplog):
    cards_at.pages["/two/card.json"] = cards_at.card(name="Two")
    two = registration.register_remote("two", url=f"{cards_at.url}/two/card.json")
    verify = card_verification.verify_card

    async def breaking(told, *more):
        if told["name"] == "Two":
            raise RuntimeError("surprise")
        return await verify(told, *more)

    monkeypatch.setattr(card_verification, "verify_card", breaking)
    cards_at.pages[WELL_KNOWN] = cards_at.card(description="Other.")
    RemoteAgent.objects.update(refresh_at=timezone.now())
    assert registration.refresh_due_cards() == 2
    assert Agent.objects.get(slug="translator").description == "Other."
    assert RemoteAgent.objects.get(agent=two).card_error == "The card could not be read. The log says more."
    assert "surprise" in caplog.text


def test_a_pasted_card_and_an_agent_that_is_switched_off_are_not_due(cards_at, translator):
    RemoteAgent.objects.update(refresh_at=timezone.now(), card_url="")
    assert registration.refresh_due_cards() == 0
    assert registration.refresh_card(translator).reason == "The card was pasted: give it the new one."
    RemoteAgent.objects.update(refresh_at=timezone.now(), card_url=cards_at.url)
    Agent.objects.update(is_enabled=False)
    assert registration.refresh_due_cards() == 0
