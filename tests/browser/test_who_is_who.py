"""Two people and an operator: how people come in, prove who they are, work together, and lose what they had."""

import re

import pytest
from playwright.sync_api import expect

from apps.accounts.audit_models import AuditAction
from tests.browser.doing import begin, heard, messages, of_session, say, session_of, settled, sign_out
from tests.browser.test_accessibility import axe

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
def bob(open_browser, parley):
    """A newcomer's page, with a device for passkeys: those need a name, and no address."""
    context = open_browser(storage_state=None, base_url=f"http://localhost:{parley.port}")
    page = context.new_page()
    device = context.new_cdp_session(page)
    device.send("WebAuthn.enable")
    device.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
    return page


def test_people_join_work_together_and_lose_access(page, bob, open_browser, operator):
    operators_page = open_browser(storage_state=operator.state).new_page()
    operators_page.goto("/settings/invitations")
    operators_page.get_by_role("button", name="Invite").click()
    expect(operators_page.get_by_role("heading", name="Send this link to the person")).to_be_focused()
    assert axe(operators_page) == []
    link = operators_page.locator("#invitation-link").inner_text()
    bob.goto(re.sub("//127.0.0.1:", "//localhost:", link))
    assert axe(bob) == []
    bob.get_by_label("E-mail").fill(BOB)
    bob.get_by_label("Name").fill("Bob")
    bob.get_by_label("Password").fill(SECRET)
    bob.get_by_role("button", name="Make account and sign in").click()
    expect(bob.locator(".sidebar-foot [popovertarget=account]")).to_have_text("Bob")
    sign_in_with_a_passkey(bob)

    team = workspace(page, bob)
    talk(page, bob)
    lose_and_regain_a_role(page, bob, team)
    operators_page.goto(f"/admin/accounts/auditentry/?q={AuditAction.MEMBER_CHANGED.value}")
    expect(operators_page.locator("#result_list tbody tr", has_text="Reef").first).to_be_visible()


def sign_in_with_a_passkey(page):
    page.goto("/settings/security")
    page.get_by_role("link", name="Add a passkey").click()
    expect(page.get_by_role("heading", name="Is it you?")).to_be_visible()
    page.get_by_label("Password").fill(SECRET)
    page.keyboard.press("Enter")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Add passkey").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    assert axe(page) == []
    page.get_by_role("link", name="Back to Security").click()
    sign_out(page)
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.locator(".sidebar-foot [popovertarget=account]")).to_have_text("Bob")


def workspace(page, bob):
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


def give_role(page, address, role):
    page.goto(address)
    page.get_by_label("Role of Bob", exact=True).select_option(role)
    page.get_by_role("button", name="Change the role of Bob").click()
    expect(page.locator(".settings-section [role=status]")).to_be_visible()


def talk(page, bob):
    """In a session that both have open."""
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


def said(page, words):
    return messages(page).filter(has_text=words).and_(page.locator(".from-user"))


def lose_and_regain_a_role(page, bob, team):
    """Bob's page is open, and is not loaded again."""
    session = page.url
    bob.evaluate("window.stayed = true")
    bob.locator("#words").fill("And the worms")
    give_role(page, team, "Viewer")
    expect(bob.locator("#composer")).to_be_hidden(timeout=SOON)
    expect(bob.get_by_text("You can read this session, but not write in it.")).to_be_visible()
    assert axe(bob) == []
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
