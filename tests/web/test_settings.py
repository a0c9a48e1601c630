"""A person's settings: profile, password, API keys, where their sessions went, and workspaces with their roles."""

import re

import pytest
from django.contrib.auth.models import Permission as DjangoPermission
from django.test import Client
from django.urls import resolve, reverse

from apps.accounts import workspaces
from apps.accounts.models import ApiKey, Membership, User, Workspace
from apps.accounts.permissions import Role
from apps.accounts.principals import READ, WRITE
from apps.accounts.requests import quotas
from apps.accounts.requests.authentication import BadCredentials, api_key_principal
from apps.agents.models import Agent
from apps.budgets.models import Spending, first_of_month
from apps.conversations.sessions.titles import title_key
from apps.engine import accept
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import register_plan
from apps.record import ledger
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.models import Context
from apps.web.roles import role_refusal
from apps.web.settings.sections import SECTIONS
from tests.clients import telling
from tests.members import member

PASSWORD = "correct horse"
NEW_PASSWORD = "a longer staple battery"
KEY = {"name": "laptop", "scopes": [READ], "days": "30", "current_password": PASSWORD}


@pytest.fixture(autouse=True)
def fresh_counts(db, monkeypatch):
    monkeypatch.setattr(quotas, "key_counter", quotas.RequestCounter())


def key_in(answer):
    return re.search(r"parley_[0-9a-f]{12}_[\w-]+", answer.text).group()


def test_every_section_has_an_address_for_its_person(client, ada_browser):
    assert ada_browser.get("/settings")["Location"] == "/settings/profile"
    for section in SECTIONS:
        page = ada_browser.get(f"/settings/{section}")
        assert (page.status_code, 'aria-current="page"' in page.text) == (200, True), section
        assert "frame-ancestors 'none'" in page["Content-Security-Policy"]
        assert client.get(f"/settings/{section}")["Location"].startswith("/sign-in")


class TestProfile:
    VALUES = {"name": "Ada L", "email": "Lovelace@Example.org", "time_zone": "Asia/Tokyo", "current_password": PASSWORD}

    def test_name_address_and_time_zone_are_saved(self, ada, bob, ada_browser):
        for wrong in ({"current_password": "guess"}, {"email": "BOB@example.org"}, {"time_zone": "../etc"}):
            assert ada_browser.post("/settings/profile", {**self.VALUES, **wrong}).status_code == 422
        ada.refresh_from_db()
        assert (ada.email, ada.name, ada.time_zone) == ("ada@example.org", "Ada", "")
        assert ada_browser.post("/settings/profile", self.VALUES).status_code == 302
        ada.refresh_from_db()
        assert (ada.name, ada.time_zone, ada.email) == ("Ada L", "Asia/Tokyo", "lovelace@example.org")
        same = self.VALUES | {"name": "Ada", "current_password": ""}  # the address stays
        assert ada_browser.post("/settings/profile", same).status_code == 302
        ApiKey.issue(ada, "laptop")
        ApiKey.objects.update(created_at="2026-01-01T20:00Z")
        ada_browser.cookies["zone"] = "America/New_York"
        assert "2 Jan 2026" in ada_browser.get("/settings/keys").text


class TestPassword:
    VALUES = {"current_password": PASSWORD, "new_password": NEW_PASSWORD, "again": NEW_PASSWORD}

    def test_new_password_signs_other_browsers_out(self, ada, ada_browser, browser_of):
        other = browser_of(ada)
        weak = {"new_password": "password", "again": "password"}
        for wrong in ({"current_password": "guess"}, weak, {"again": "another thing"}):
            answer = ada_browser.post("/settings/password", {**self.VALUES, **wrong})
            assert (answer.status_code, 'role="alert"' in answer.text) == (422, True), wrong
        ada.refresh_from_db()
        assert ada.check_password(PASSWORD)
        assert ada_browser.post("/settings/password", self.VALUES).status_code == 302
        ada.refresh_from_db()
        assert ada.check_password(NEW_PASSWORD)
        assert ada_browser.get("/settings/password").status_code == 200
        assert other.get("/settings/password")["Location"].startswith("/sign-in")


def test_appearance_is_in_every_page_with_its_version(ada, ada_browser, bob_browser):
    assert ada_browser.post("/settings/appearance", {"theme": "dark"}).status_code == 302
    assert 'data-theme="dark"' in ada_browser.get("/inbox").text
    assert 'data-theme="dark"' not in bob_browser.get("/inbox").text
    assert ada_browser.post("/settings/appearance/theme", {"theme": ""}).json()["version"] == 2
    assert f'data-appearance="{ada.pk} 2"' in ada_browser.get("/inbox").text, "kept pages are known to be older"
    assert ada_browser.post("/settings/appearance/theme", {"theme": "pink"}).status_code == 422


@pytest.mark.django_db(transaction=True)  # a thread writes a key's last use
class TestKeys:
    def test_key_is_shown_once_after_the_password(self, ada, ada_browser):
        for wrong in ({"current_password": "guess"}, {"preset": "call", "agent": ""}, {"agent": "nobody"}):
            assert ada_browser.post("/settings/keys", {**KEY, **wrong}).status_code == 422, wrong
        assert not ApiKey.objects.exists()
        answer = ada_browser.post("/settings/keys", KEY)
        text = key_in(answer)
        assert api_key_principal(f"Bearer {text}").user_id == ada.pk
        assert ("no-store" in answer["Cache-Control"], text in ada_browser.get("/settings/keys").text) == (True, False)
        key = ApiKey.objects.get()
        assert (key.name, key.scopes, (key.expires_at - key.created_at).days) == ("laptop", [READ], 29)

    def test_rotated_key_is_shown_once_after_the_password(self, ada, ada_browser):
        old = key_in(ada_browser.post("/settings/keys", KEY | {"days": "0"}))
        assert ApiKey.objects.get().expires_at is None
        place = f"/settings/keys/{ApiKey.objects.get().pk}/rotate"
        assert ada_browser.get(place).status_code == 200
        assert ada_browser.post(place, {"hours": "0", "current_password": "guess"}).status_code == 422
        new = key_in(ada_browser.post(place, {"hours": "0", "current_password": PASSWORD}))
        assert api_key_principal(f"Bearer {new}").user_id == ada.pk
        with pytest.raises(BadCredentials):
            api_key_principal(f"Bearer {old}")

    def test_samples_get_a_key_that_only_sends(self, echo, ada_browser):
        refused = ada_browser.post("/agents/echo/key", {"current_password": "guess"})
        assert ("YOUR-KEY" in refused.text, ApiKey.objects.exists()) == (True, False)
        assert ada_browser.post("/agents/nobody/key", {"current_password": PASSWORD}).status_code == 404
        answer = ada_browser.post("/agents/echo/key", {"current_password": PASSWORD})
        caller = api_key_principal(f"Bearer {key_in(answer)}")
        assert (caller.may(WRITE), caller.may(READ), "YOUR-KEY" in answer.text) == (True, False, False)
        key = ApiKey.objects.get()
        assert (key.name, (key.expires_at - key.created_at).days) == (echo.name, 29)


def test_destinations_name_models_and_remote_agents(ada, ada_browser, bob_browser, echo, said, settings):
    def page():
        return ada_browser.get("/settings/destinations").text

    settings.EMBEDDING_MODEL, settings.ROUTER_AGENT = "small-embeddings", "echo"
    receipt = accept.accept(ada.principal, echo, said("Where does this go?"))
    assert "small-embeddings" in page()
    settings.EMBEDDING_MODEL = ""
    assert "No model or remote agent is recorded" in page()
    for key, model in [(receipt.run, "answering-model"), (title_key(receipt.context), "title-model")]:
        Spending.objects.create(run=key, model=model, month=first_of_month(), context=receipt.context)
    Run.objects.filter(pk=receipt.run).update(input={"sent": {}})
    Agent.objects.filter(pk=echo.pk).update(kind=Agent.Kind.REMOTE, name="Far away")
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Yes."}]}
    message |= {"contextId": str(receipt.context), "metadata": {"models": ["message-model", 7]}}
    with ledger.writing(receipt.context) as log:
        log.add(EventType.AGENT_MESSAGE, {"message": message, "agent": echo.pk})
    named = ("Where does this go?", "answering-model", "title: <bdi>title-model", "Far away", "message-model")
    assert [words for words in named if words not in page()] == []
    assert "answering-model" not in bob_browser.get("/settings/destinations").text


LIST = "/settings/workspaces"


@pytest.fixture
def team(ada, bob):
    """Ada's, with Bob as a member."""
    made = workspaces.create_workspace(ada.principal, "Team")
    workspaces.add_member(ada.principal, made.pk, bob.email, Role.MEMBER)
    return made


@pytest.fixture
def at(team):
    return f"{LIST}/{team.pk}"


def role_of(team, user):
    return Membership.objects.filter(workspace=team, user=user).values_list("role", flat=True).first()


def refused(browser, answer):
    """Whether the page says why not."""
    page = browser.get(answer["Location"]) if answer.status_code == 302 else answer
    return page.status_code in (200, 422) and ('class="notice"' in page.text or 'class="error' in page.text)


@pytest.mark.parametrize(("role", "may"), [(Role.VIEWER, 0), (Role.MANAGER, 2), (Role.OWNER, 4)])
def test_forbidden_acts_are_hidden_and_refused(bob, team, at, bob_browser, role, may):
    Membership.objects.filter(workspace=team, user=bob).update(role=role)
    page = bob_browser.get(at).text
    offered = [f'"{at}/{act}"' in page for act in ("name", "members", "transfer", "delete")]
    assert offered == [number < may for number in range(4)]
    assert refused(bob_browser, bob_browser.post(f"{at}/name", {"name": "Theirs"})) is (may == 0)
    assert bob_browser.post(f"{at}/members", TestInviting.GRACE).status_code == 422, "who is no operator invites nobody"
    assert bob_browser.post(f"{at}/members/{bob.pk}/remove")["Location"] == LIST, "everybody may leave"


def test_owners_do_all_to_a_workspace(ada, bob, ada_browser):
    home = f"{LIST}/{ada.personal_workspace.pk}"
    page = ada_browser.get(home).text
    assert [f'"{home}/{act}"' in page for act in ("name", "members", "delete")] == [True, False, False]
    assert ada_browser.post(LIST, {"name": " "}).status_code == 422
    at = ada_browser.post(LIST, {"name": "Team"})["Location"]
    team = Workspace.objects.get(name="Team")
    assert role_of(team, ada) == Role.OWNER
    ada_browser.post(f"{at}/members", {"email": bob.email.upper(), "role": "viewer"})
    assert role_of(team, bob) == Role.VIEWER
    ada_browser.post(f"{at}/members/{bob.pk}/role", {"role": "manager"})
    assert role_of(team, bob) == Role.MANAGER
    ada_browser.post(f"{at}/transfer", {"member": bob.pk})
    assert (role_of(team, ada), role_of(team, bob)) == (Role.MANAGER, Role.OWNER)
    workspaces.transfer_ownership(User.objects.get(pk=bob.pk).principal, team.pk, ada.pk)
    ada_browser.post(f"{at}/members/{bob.pk}/remove")
    assert role_of(team, bob) is None
    assert ada_browser.get(f"{at}/members/{bob.pk}/remove").status_code == 404
    for nobody in (bob.pk, 2**70):
        assert refused(ada_browser, ada_browser.post(f"{at}/members/{nobody}/role", {"role": "viewer"}))
    ada_browser.post(f"{at}/name", {"name": "Crew"})
    assert "Crew" in ada_browser.get(LIST).text
    assert refused(ada_browser, ada_browser.post(f"{at}/delete", {"name": "Team"}))
    ada_browser.post(f"{at}/delete", {"name": "Crew"})
    assert ada_browser.get(at).status_code == 404


class TestInviting:
    GRACE = {"email": "Grace@example.org", "role": "viewer"}

    @pytest.fixture
    def inviter(self, ada):
        ada.user_permissions.add(DjangoPermission.objects.get(codename="add_user"))
        User.objects.filter(pk=ada.pk).update(is_staff=True)
        return User.objects.get(pk=ada.pk)

    def test_who_accepts_is_a_member_and_begins_there(self, ada, inviter, team, at, ada_browser, settings):
        page, browser = ada_browser.post(f"{at}/members", self.GRACE), Client()
        [link] = re.findall(re.escape(settings.PUBLIC_BASE_URL) + r"(/invitations/[\w-]+)", page.text)
        for role, accepted in ((Role.MEMBER, False), (Role.OWNER, True)):
            Membership.objects.filter(workspace=team, user=ada).update(role=role)
            browser.post(link, {"name": "Grace", "password": "a longer staple battery"})
            assert User.objects.filter(email="grace@example.org").exists() is accepted, role
        grace = User.objects.get(email="grace@example.org")
        assert (role_of(team, grace), grace.membership.workspace) == (Role.VIEWER, team)
        assert browser.get("/inbox").status_code == 200


class TestSwitching:
    def test_switching_stays_on_lists_of_here(self, team, ada_browser):
        for before, after in {"/inbox": "/inbox", "//evil.example/inbox": "/", "/agents/x": "/"}.items():
            answer = ada_browser.post(f"{LIST}/choose", {"workspace": team.pk, "next": before})
            assert answer["Location"] == after


class TestViewers:
    ACTION = re.compile(r'(?:hx-post|action)="(/[^"?#]*)"')
    HIDDEN = re.compile(r"<form[^>]*\bhidden\b.*?</form>", re.DOTALL)

    @pytest.fixture
    def viewer(self, ada, bob, echo):
        slot = {"name": "which", "schema": {"type": "string"}}
        principal = member(bob, ada, Role.VIEWER)
        telling.asked(User.objects.get(pk=bob.pk), echo, slot, "which?")  # before the role changed
        return principal

    @pytest.fixture
    def plan(self, ada, echo):
        steps = {"one": {"agent": "echo", "message": "x"}}
        read = PlanDefinition.read({"name": "P", "description": "P.", "steps": steps})
        return register_plan("p", read, author=ada, access=Agent.Access.WORKSPACE)

    def test_viewers_are_offered_nothing_that_is_refused(self, viewer, plan, bob_browser):
        builders = [reverse(f"web:{name}") for name in ("add-agent", "new-plan")]
        for address in ("/", "/agents", "/agents/echo", "/plans", f"/plans/{plan.slug}", "/inbox"):
            text = self.HIDDEN.sub("", bob_browser.get(address).text)
            refusals = {found: role_refusal(viewer, resolve(found)) for found in self.ACTION.findall(text)}
            assert [found for found, refusal in refusals.items() if refusal] == [], address
            assert [sign for sign in ("data-new", *(f'href="{one}"' for one in builders)) if sign in text] == []
        before = Context.objects.count()
        answer = bob_browser.post("/agents/echo/messages", {"text": "hello"})
        assert (answer.status_code, "Member" in answer.json()["error"]) == (403, True)
        statuses = [
            bob_browser.post("/plans/new", {}).status_code,
            *(bob_browser.get(one).status_code for one in builders),
        ]
        assert (statuses, Context.objects.count()) == ([403, 403, 403], before)
