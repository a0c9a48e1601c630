"""Remote agents are registered by card URL, base URL or pasted card."""

import asyncio
import gzip
import json

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command

import outbound
from apps.agents.models import Agent
from apps.agents.registration import house_workspace
from apps.agents.versions import content_digest
from apps.remote import cards, registration
from apps.remote.card_verification import CardSignature
from apps.remote.errors import BadCard
from apps.remote.models import RemoteAgent, SignatureStatus
from tests.remote.card_server import WELL_KNOWN, card, old_card

pytestmark = pytest.mark.django_db

URL = "https://agents.example/a2a"


def test_a_remote_agent_may_take_days(cards_at):
    cards_at.pages["/.well-known/agent-card.json"] = cards_at.card()
    assert registration.register_remote("slow", url=cards_at.url).time_limit is None


def test_a_card_at_a_url_becomes_an_agent(cards_at, ada):
    cards_at.pages["/cards/one.json"] = cards_at.card()
    url = f"{cards_at.url}/cards/one.json"
    agent = registration.register_remote("translator", url=url, author=ada, access="public", time_limit=60)
    agent.refresh_from_db()
    assert (agent.kind, agent.name, agent.version, agent.access) == ("remote", "Translator", "2.1.0", "public")
    assert (agent.time_limit, agent.workspace) == (60, house_workspace())
    assert agent.skills[0]["id"] == "translate"
    version = agent.current_version
    assert version.content["card"] == cards_at.card()
    assert (version.number, version.sha256, version.author) == (1, content_digest(version.content), ada)
    remote = agent.remote
    assert (remote.card_url, remote.origin, remote.signature) == (url, cards_at.url, "unsigned")
    assert (remote.registered_by, remote.history_messages, remote.card_error) == (ada, 10, "")
    assert remote.refreshed_at < remote.refresh_at
    assert cards.card_of(version).name == "Translator"
    assert cards.card_of(version) is cards.card_of(version)


def test_usual_duration_is_read_from_card(cards_at):
    duration = {"uri": "https://other.example/ext/duration/v1", "params": {"usualSeconds": 3600}}
    cards_at.pages[WELL_KNOWN] = cards_at.card(capabilities={"extensions": [duration]})
    assert registration.register_remote("far", url=cards_at.url).usual_seconds == 3600


@pytest.mark.parametrize(
    ("base", "place"),
    [("", "agent-card.json"), ("/", "agent.json"), ("/a2a/one", "agent.json"), ("/a2a/one/", "agent-card.json")],
)
def test_a_base_url_leads_to_the_card_at_a_well_known_place_below_it(cards_at, base, place):
    at = f"{base.rstrip('/')}/.well-known/{place}"
    cards_at.pages[at] = cards_at.card()
    registration.register_remote("translator", url=cards_at.url + base)
    assert RemoteAgent.objects.get().card_url == cards_at.url + at


def test_a_url_that_ends_like_no_card_may_be_one(cards_at):
    cards_at.pages["/my/agent"] = old_card(cards_at.url)
    agent = registration.register_remote("translator", url=f"{cards_at.url}/my/agent#about")
    assert agent.remote.card_url == f"{cards_at.url}/my/agent"
    assert agent.current_version.content["card"]["supportedInterfaces"][0]["protocolVersion"] == "0.3"


@pytest.mark.parametrize("page", [(302, {"Location": "/login"}, b""), (401, {}, b""), (404, {}, b"")])
def test_what_answers_where_there_is_no_card_hides_none_at_the_next_place(cards_at, page):
    cards_at.pages |= {WELL_KNOWN: page, "/.well-known/agent.json": old_card(cards_at.url)}
    registration.register_remote("translator", url=cards_at.url)
    assert RemoteAgent.objects.get().card_url == f"{cards_at.url}/.well-known/agent.json"


def test_a_pasted_card_becomes_an_agent_too_if_it_is_no_larger_than_one_that_is_fetched():
    agent = registration.register_remote("translator", card=json.dumps(card(URL)))
    assert (agent.remote.card_url, agent.remote.origin) == ("", "https://agents.example:443")
    skills = [{"id": f"s{n}", "name": "S", "description": "x" * 9_000, "tags": ["s"]} for n in range(60)]
    with pytest.raises(BadCard, match="larger than 512 KiB"):
        registration.register_remote("other", card=json.dumps(card(URL, skills=skills)))


def test_a_preview_keeps_nothing_and_says_what_one_should_know(cards_at):
    cards_at.pages[WELL_KNOWN] = card(URL, name="Ünlü Çevirmen 3!")
    shown = asyncio.run(registration.preview(f"{cards_at.url} "))
    assert shown.slug == "nl-evirmen-3"
    assert shown.notes == [
        f"The card is at {cards_at.url}, the agent itself at https://agents.example:443.",
        "The card is unsigned.",
    ]
    assert not Agent.objects.exists()
    agent = registration.save("translator", shown)
    assert agent.current_version.sha256 == shown.sha256


def test_notes_on_the_card_are_kept(cards_at, capsys):
    told = {"name": "A", "url": f"{cards_at.url}/a2a", "capabilities": ["jokes"]}
    cards_at.pages[WELL_KNOWN] = told
    call_command("register_agent", "one", "--card", cards_at.url)
    remote = RemoteAgent.objects.get()
    assert "The card does not say its version; 1.0 is assumed." in remote.card_notes
    assert "does not say its version" in capsys.readouterr().out
    cards_at.pages[WELL_KNOWN] = cards_at.card()
    registration.refresh_card(remote.agent)
    remote.refresh_from_db()
    assert remote.card_notes == []


def test_a_slug_that_is_taken_is_refused_unless_its_card_is_to_change(echo):
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
        (b"<html>", "There is no agent card at"),
        ((500, {}, b"{}"), "answers with status 500"),
        ((401, {}, b"{}"), "wants credentials"),
        (b'{"a": 1, "a": 2}', "same key twice"),
        ({"name": "x", "skills": []}, "names no address"),
        (b"{" + b" " * 600_000 + b"}", "larger than"),
        ((302, {"Location": "http://169.254.169.254/"}, b""), "redirect"),
        ((200, {"Content-Encoding": "gzip"}, gzip.compress(b" " * 2**24)), "larger than"),
    ],
)
def test_what_is_no_card_is_refused_in_a_sentence_and_leaves_nothing(cards_at, page, sentence):
    cards_at.pages[WELL_KNOWN] = page
    with pytest.raises((BadCard, outbound.OutboundError), match=sentence):
        registration.register_remote("translator", url=cards_at.url)
    assert not Agent.objects.exists()


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "ftp://x/", "x", "http://[::1", "http://a\u2100b.example/"])
def test_a_card_at_a_closed_address_or_at_none_is_not_fetched(url):
    with pytest.raises(outbound.Forbidden):
        registration.register_remote("translator", url=url)


def test_of_two_who_register_under_one_slug_at_once_the_later_is_told(monkeypatch, echo):
    shown = registration.Preview(cards.pasted_card(json.dumps(card(URL))), CardSignature(SignatureStatus.UNSIGNED))
    monkeypatch.setattr(
        registration, "_found_or_new", lambda slug, workspace, update: Agent(slug=slug, workspace=workspace)
    )
    monkeypatch.setattr(Agent, "full_clean", lambda agent: None)  # both checked before either wrote
    with pytest.raises(ValidationError, match="There is an agent echo already"):
        registration.save("echo", shown)
    assert Agent.objects.get().name == echo.name


def test_an_agent_whose_name_leads_to_a_closed_address_is_refused(cards_at, monkeypatch):
    async def inward(name, port):
        return ["10.0.0.7"]

    cards_at.pages[WELL_KNOWN] = card("https://rebinding.example/a2a")
    monkeypatch.setattr(outbound.guard(), "_resolve", inward)
    with pytest.raises(outbound.Forbidden, match="private network"):
        registration.register_remote("translator", url=cards_at.url)
    assert not Agent.objects.exists()


def test_the_command_registers_by_url_and_by_file_and_updates_and_says_what_is_wrong(cards_at, tmp_path, capsys):
    cards_at.pages[WELL_KNOWN] = cards_at.card()
    call_command("register_agent", "translator", "--card", cards_at.url, "--access", "public", "--time-limit", "7200")
    assert Agent.objects.get(slug="translator").time_limit == 7200
    assert capsys.readouterr().out == "Translator is registered at /a2a/translator (everybody, without signing in).\n"
    file = tmp_path / "card.json"
    file.write_text(json.dumps(card(URL, name="Other")))
    call_command("register_agent", "translator", "--card", str(file))
    agent = Agent.objects.get()
    assert (agent.name, agent.access, agent.remote.origin) == ("Other", "public", "https://agents.example:443")
    (tmp_path / "bad.json").write_text("nothing")
    for source, sentence in (
        ("/nowhere/card.json", "Cannot read text from"),
        ("http://10.0.0.1/", "OUTBOUND_ALLOW"),
        (str(tmp_path / "bad.json"), "no agent card"),
    ):
        with pytest.raises(CommandError, match=sentence):
            call_command("register_agent", "other", "--card", source)
