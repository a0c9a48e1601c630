"""Two people and an operator: how people come in, prove who they are, work together, and lose what they had."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from apps.accounts.audit_models import AuditAction
from tests.browser.conftest import OpenBrowser
from tests.browser.doing import begin, heard, messages, of_session, say, session_of, settled, sign_out
from tests.browser.people import PASSWORD, Person
from tests.browser.test_reachable import axe
from tests.stack import Stack

BOB, SECRET = "bob@example.org", "a coral in the deep"
SOON = 20_000  # milliseconds, for a busy machine; the slow checks take 45 seconds
AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@pytest.fixture
def bob(open_browser: OpenBrowser, parley: Stack) -> Page:
    """A newcomer's page, with a device for passkeys: those need a name, and no address."""
    context = open_browser(storage_state=None, base_url=f"http://localhost:{parley.port}")
    page = context.new_page()
    device = context.new_cdp_session(page)
    device.send("WebAuthn.enable")
    device.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
    return page


@pytest.fixture
def operators_page(open_browser: OpenBrowser, operator: Person) -> Page:
    return open_browser(storage_state=operator.state).new_page()


def test_people_come_in_work_together_and_lose_access_and_an_operator_sees_it(
    page: Page, bob: Page, operators_page: Page, ada: Person, operator: Person
) -> None:
    come_in(bob, by=invitation(operators_page))
    sign_in_with_a_passkey(bob)

    team = workspace(page, bob)
    session = talk(page, bob)
    lose_and_regain_a_role(page, bob, team)
    leak_a_key(page, ada)

    for who, action, what in (
        (ada.email, AuditAction.SESSION_SHARED, session),
        (ada.email, AuditAction.MEMBER_ADDED, "Reef"),
        (ada.email, AuditAction.MEMBER_CHANGED, "Reef"),
        (ada.email, AuditAction.KEY_CREATED, "parley_"),
        ("", AuditAction.KEY_LEAKED, "parley_"),
        (operator.email, AuditAction.INVITED, ""),
        (BOB, AuditAction.INVITATION_ACCEPTED, ""),
        (BOB, AuditAction.FACTOR_ADDED, BOB),
        (BOB, AuditAction.SIGNED_IN, BOB),
    ):
        expect(audited(operators_page, who, action, what).first).to_be_visible()


def invitation(page: Page) -> str:
    """The path of a new invitation's link."""
    page.goto("/inbox")
    page.locator(".sidebar-foot [popovertarget=account]").click()
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("link", name="Invitations").click()
    page.get_by_role("button", name="Invite").click()
    expect(page.get_by_role("heading", name="Send this link to the person")).to_be_focused()
    assert axe(page) == []
    return page.locator("#invitation-link").inner_text()


def come_in(page: Page, *, by: str) -> None:
    page.goto(re.sub("//127.0.0.1:", "//localhost:", by))
    assert axe(page) == []
    page.get_by_label("E-mail").fill(BOB)
    page.get_by_label("Name").fill("Bob")
    page.get_by_label("Password").fill(SECRET)
    page.get_by_role("button", name="Make account and sign in").click()
    expect(page.locator(".sidebar-foot [popovertarget=account]")).to_have_text("Bob")


def sign_in_with_a_passkey(page: Page) -> None:
    page.goto("/settings/security")
    page.get_by_role("link", name="Add a passkey").click()
    expect(page.get_by_role("heading", name="Is it you?")).to_be_visible()
    page.get_by_label("Password").fill(SECRET)
    page.keyboard.press("Enter")
    page.get_by_label("Name").fill("laptop")
    assert axe(page) == []
    page.get_by_role("button", name="Add passkey").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    assert axe(page) == []
    page.get_by_role("link", name="Back to Security").click()
    expect(page.get_by_role("link", name="Remove laptop")).to_be_visible()
    assert axe(page) == []
    sign_out(page)
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.locator(".sidebar-foot [popovertarget=account]")).to_have_text("Bob")


def workspace(page: Page, bob: Page) -> str:
    """One of both people, which is now their current one; the address of its settings."""
    page.goto("/settings/workspaces")
    page.get_by_label("Name").fill("Reef")
    page.get_by_role("button", name="Create workspace").click()
    page.get_by_label("E-mail").fill(BOB)
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_label("Role of Bob", exact=True)).to_have_value("member")
    assert axe(page) == []
    address = page.url
    for one in (page, bob):
        one.goto("/settings/workspaces")
        one.get_by_role("button", name="Switch to Reef").click()
        expect(one.locator(".sidebar [popovertarget=workspaces]")).to_contain_text("Reef")
    return address


def give_role(page: Page, address: str, role: str) -> None:
    page.goto(address)
    page.get_by_label("Role of Bob", exact=True).select_option(role)
    page.get_by_role("button", name="Change the role of Bob").click()
    expect(page.locator(".settings-section [role=status]")).to_be_visible()


def talk(page: Page, bob: Page) -> str:
    """In a session that both have open; its id."""
    begin(page, "echo", "Count the corals")
    heard(page, "Count the corals")
    session = session_of(page)
    of_session(page, "Share…")
    page.get_by_label("Members of this workspace").check()
    expect(page.locator("dialog.dialog input[value=workspace]:checked:enabled")).to_be_visible()
    page.keyboard.press("Escape")

    bob.goto("/")
    bob.locator(f".recent [data-session='{session}'], .recent a[href$='{session}']").first.click()
    expect(said(bob, "Count the corals")).to_contain_text("Ada")
    expect(page.locator("#people")).to_contain_text("Bob is here")
    expect(bob.locator("#people")).to_contain_text("Ada is here")
    say(bob, "And the sponges")
    expect(said(page, "And the sponges")).to_contain_text("Bob")
    expect(said(bob, "And the sponges")).to_contain_text("You")
    expect(said(page, "Count the corals")).to_contain_text("You")
    for one in (page, bob):
        heard(one, "And the sponges")
        settled(one)
    return session


def said(page: Page, words: str) -> Locator:
    return messages(page).filter(has_text=words).and_(page.locator(".from-user"))


def lose_and_regain_a_role(page: Page, bob: Page, team: str) -> None:
    """Bob's page is open, and is not loaded again."""
    session = page.url
    bob.evaluate("window.stayed = true")
    bob.locator("#words").fill("And the worms")
    give_role(page, team, "Viewer")
    expect(bob.locator("#composer")).to_be_hidden(timeout=SOON)
    expect(bob.get_by_text("You can read this session, but not write in it.")).to_be_visible()
    assert axe(bob) == []
    expect(bob.get_by_text("Your workspace or your role has changed.")).to_be_visible()
    page.goto(session)
    say(page, "Only I can say this")
    expect(said(bob, "Only I can say this")).to_contain_text("Ada")

    give_role(page, team, "Member")
    expect(bob.locator("#composer")).to_be_visible(timeout=SOON)
    bob.locator("#words").press("Enter")
    expect(said(bob, "And the worms")).to_contain_text("You")
    page.goto(session)
    expect(said(page, "And the worms")).to_contain_text("Bob")
    assert bob.evaluate("window.stayed")


def leak_a_key(page: Page, ada: Person) -> None:
    """With an open stream, which ends."""
    page.goto("/settings/keys")
    page.get_by_label("Name").fill("robot")
    page.get_by_label("Everything that you can do").check()
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Create key").click()
    key = page.locator("#key-text").inner_text()
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=f"{ada.url}/api/v1", headers=headers, timeout=SOON / 1000) as program:
        assert program.get("/sessions").is_success
        with program.stream("GET", "/events", headers={"Accept": "text/event-stream"}) as stream:
            assert stream.is_success
            report = [{"token": key, "type": "parley_api_key", "url": "https://example.org/leak"}]
            told = httpx.post(f"{ada.url}/api/v1/keys/leaked", json=report, timeout=SOON / 1000)
            assert [one["label"] for one in told.json()] == ["true_positive"]
            ends(stream.iter_lines())
        assert program.get("/sessions").status_code == httpx.codes.UNAUTHORIZED
    page.goto("/settings/keys")
    expect(page.locator(".keys .row", has_text="robot")).to_contain_text("Revoked: it leaked")


def ends(lines: Iterator[str]) -> None:
    deadline = time.monotonic() + SOON / 1000
    for _ in lines:
        assert time.monotonic() < deadline


def audited(page: Page, who: str, action: AuditAction, what: str) -> Locator:
    """The rows of admin's audit in which somebody did this."""
    page.goto(f"/admin/accounts/auditentry/?q={action.value}")
    rows = page.locator("#result_list tbody tr", has_text=action.label)
    return rows.filter(has_text=who).filter(has_text=what)
