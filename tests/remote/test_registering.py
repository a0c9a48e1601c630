"""Remote agents are registered by card URL, base URL or pasted card."""

import datetime
import gzip
import json

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.utils import timezone

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.agents.models import Agent
from apps.agents.registration import house_workspace
from apps.agents.versions import content_digest
from apps.remote import registration
from apps.remote.agent_cards import cards
from apps.remote.errors import BadCard
from apps.remote.models import RemoteAgent
from parley import outbound
from tests.remote.card_server import WELL_KNOWN, card

pytestmark = pytest.mark.django_db

URL = "https://agents.example/a2a"


def test_a_card_at_a_url_becomes_an_agent(cards_at, ada):
    duration = {"uri": "https://other.example/ext/duration/v1", "params": {"usualSeconds": 3600}}
    told = cards_at.card(capabilities={"extensions": [duration]})
    cards_at.pages["/cards/one.json"] = told
    url = f"{cards_at.url}/cards/one.json"
    agent = registration.register_remote("translator", url=url, author=ada, access="public", time_limit=60)
    agent.refresh_from_db()
    assert (agent.kind, agent.name, agent.version, agent.access) == ("remote", "Translator", "2.1.0", "public")
    assert (agent.time_limit, agent.usual_seconds, agent.workspace) == (60, 3600, house_workspace())
    assert agent.skills[0]["id"] == "translate"
    version = agent.current_version
    assert version.content["card"] == told
    assert (version.number, version.sha256, version.author) == (1, content_digest(version.content), ada)
    remote = agent.remote
    assert (remote.card_url, remote.origin, remote.signature) == (url, cards_at.url, "unsigned")
    assert (remote.registered_by, remote.history_messages, remote.card_error) == (ada, 10, "")
    assert remote.refreshed_at < remote.refresh_at
    assert cards.card_of(version).name == "Translator"
    assert registration.register_remote("slow", url=url).time_limit is None, "it may take days"


@pytest.mark.parametrize(
    ("base", "place"),
    [("/", "agent.json"), ("/a2a/one", "agent-card.json")],
)
def test_base_urls_lead_to_well_known_cards(cards_at, base, place):
    at = f"{base.rstrip('/')}/.well-known/{place}"
    cards_at.pages[at] = cards_at.card()
    registration.register_remote("translator", url=cards_at.url + base)
    assert RemoteAgent.objects.get().card_url == cards_at.url + at


def test_taken_slugs_are_refused_except_for_updates(echo):
    registration.register_remote("one", card=json.dumps(card(URL)), access="public", on_busy="reject")
    with pytest.raises(ValidationError, match="There is an agent one already"):
        registration.register_remote("one", card=json.dumps(card(URL, name="Other")))
    with pytest.raises(ValidationError, match="agent of another kind"):
        registration.register_remote("echo", card=json.dumps(card(URL)), update=True)
    again = registration.register_remote("one", card=json.dumps(card(URL, name="Other")), update=True)
    assert (again.name, again.access, again.on_busy) == ("Other", "public", "reject")
    assert again.versions.count() == 2
    assert Agent.objects.get(slug="echo").kind == "hosted"


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ((500, {}, b"{}"), "answers with status 500"),
        ((401, {}, b"{}"), "wants credentials"),
        (b"{" + b" " * 600_000 + b"}", "larger than"),
        ((302, {"Location": "http://169.254.169.254/"}, b""), "redirect"),
        ((200, {"Content-Encoding": "gzip"}, gzip.compress(b" " * 2**24)), "larger than"),
    ],
)
def test_what_is_no_card_leaves_no_agent(cards_at, page, sentence):
    cards_at.pages[WELL_KNOWN] = page
    with pytest.raises((BadCard, outbound.OutboundError), match=sentence):
        registration.register_remote("translator", url=cards_at.url)
    assert not Agent.objects.exists()


def test_names_of_closed_addresses_are_refused(cards_at, monkeypatch):
    async def inward(name, port):
        return ["10.0.0.7"]

    cards_at.pages[WELL_KNOWN] = card("https://rebinding.example/a2a")
    monkeypatch.setattr(outbound.guard(), "_resolve", inward)
    with pytest.raises(outbound.Forbidden, match="private network"):
        registration.register_remote("translator", url=cards_at.url)
    for url in ("http://10.0.0.1/", "ftp://x/", "x", "http://[::1", "http://a\u2100b.example/"):
        with pytest.raises(outbound.Forbidden):
            registration.register_remote("translator", url=url)
    assert not Agent.objects.exists()


def test_the_command_registers_updates_and_explains(cards_at, tmp_path, capsys):
    cards_at.pages[WELL_KNOWN] = {"name": "A", "url": f"{cards_at.url}/a2a", "capabilities": ["jokes"]}
    call_command("register_agent", "translator", "--card", cards_at.url, "--access", "public", "--time-limit", "7200")
    agent = Agent.objects.get()
    assert agent.time_limit == 7200
    said = capsys.readouterr().out
    assert "is registered at /a2a/translator (everybody, without signing in).\n" in said
    for notes in ("\n".join(agent.remote.card_notes), said):
        assert "The card does not say its version; 1.0 is assumed." in notes
    file = tmp_path / "card.json"
    file.write_text(json.dumps(card(URL, name="Other")))
    call_command("register_agent", "translator", "--card", str(file))
    agent = Agent.objects.get()
    assert (agent.name, agent.access, agent.remote.origin) == ("Other", "public", "https://agents.example:443")
    for source, sentence in (("/nowhere/card.json", "Cannot read text from"), ("http://10.0.0.1/", "OUTBOUND_ALLOW")):
        with pytest.raises(CommandError, match=sentence):
            call_command("register_agent", "other", "--card", source)


# Harmless changes of a card apply at once; others wait for an operator

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


def test_unchanged_cards_make_no_version(cards_at, translator):
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


def test_harmless_changes_count_and_policies_stay(cards_at, translator):
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
        (lambda url: {"securitySchemes": KEY}, "another security scheme"),
        (lambda url: {"securityRequirements": [{"schemes": {"key": {"list": []}}}]}, "another security scheme"),
    ],
)
def test_changes_of_address_or_security_wait(cards_at, translator, fields, what):
    cards_at.pages[WELL_KNOWN] = cards_at.card(description="New.", **fields(cards_at.url))
    outcome, agent = refreshed(translator)
    assert (outcome, agent.description, agent.current_version.number) == ("waiting", "Translates texts.", 1)
    assert agent.remote.origin == cards_at.url
    assert agent.remote.proposed.note == f"Needs approval: {what}."
    outcome, agent = refreshed(translator)
    assert (outcome, agent.versions.count()) == ("waiting", 2)


@pytest.fixture
def moved(cards_at, translator):
    """An agent whose new card names another origin, which waits for approval."""
    cards_at.pages[WELL_KNOWN] = cards_at.card(
        name="Moved", supportedInterfaces=[interface("https://elsewhere.example/a2a")]
    )
    return refreshed(translator)[1]


def test_approved_cards_are_audited_and_count(moved, ada):
    version = registration.approve_card(moved, ada)
    agent = Agent.objects.get()
    assert (agent.name, agent.current_version) == ("Moved", version)
    assert agent.remote.origin == "https://elsewhere.example:443"
    assert (agent.remote.proposed, agent.versions.first().note) == (None, "Needs approval: another origin, interface.")
    entries = AuditEntry.objects.filter(group="card").order_by("number")
    told = [(AuditAction.CARD_PROPOSED, "Parley"), (AuditAction.CARD_APPROVED, ada.email)]
    assert [(one.action, one.actor_name) for one in entries] == told
    assert refreshed(agent)[0] == "unchanged"
    with pytest.raises(ValidationError, match="Nothing waits"):
        registration.approve_card(agent, ada)


def test_declined_cards_are_not_proposed_again(cards_at, moved, ada):
    registration.decline_card(moved, ada)
    outcome, agent = refreshed(moved)
    assert (outcome, agent.name, agent.remote.proposed, agent.versions.count()) == ("unchanged", "Translator", None, 2)
    cards_at.pages[WELL_KNOWN] = cards_at.card()
    outcome, agent = refreshed(moved)
    assert (outcome, agent.remote.proposed) == ("unchanged", None), "it is again what it was"


def test_only_the_card_that_was_shown_is_approved(cards_at, moved, ada):
    looked_at = moved.remote.proposed
    cards_at.pages[WELL_KNOWN] = cards_at.card(supportedInterfaces=[interface("https://evil.example/")])
    refreshed(moved)
    with pytest.raises(ValidationError, match="changed again meanwhile"):
        registration.approve_card(moved, ada, looked_at)
    assert Agent.objects.get().remote.origin == cards_at.url


def test_unreadable_cards_change_nothing(cards_at, translator):
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
def test_due_cards_are_read_once_each(cards_at, translator):
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
    RemoteAgent.objects.update(refresh_at=timezone.now(), card_url="")
    assert registration.refresh_due_cards() == 0
    assert registration.refresh_card(translator).reason == "The card was pasted: give it the new one."
    RemoteAgent.objects.update(refresh_at=timezone.now(), card_url=cards_at.url)
    Agent.objects.update(is_enabled=False)
    assert registration.refresh_due_cards() == 0
