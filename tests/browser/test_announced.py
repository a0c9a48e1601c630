"""What a screen reader is told: each message once, when it is whole; what was done, once; and nothing else."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.doing import begin, heard, settled, until
from tests.browser.test_sidebar import entry, live, session_of

LIVE = "[aria-live]:not([aria-live=off]), [role=status], [role=alert]"
# What comes into a live region, or changes in one, by the region; also where it comes with its words in it.
LISTEN = f"""
  window.told = [];
  const tell = (region, text) => text.trim() && told.push([region.id || region.className, text.trim()]);
  new MutationObserver((changes) => {{
    for (const {{ type, target, addedNodes }} of changes) {{
      const element = target.nodeType === 1 ? target : target.parentElement;
      const region = element?.closest("{LIVE}");
      if (region && type === "characterData") tell(region, target.data);
      else if (region) addedNodes.forEach((node) => tell(region, node.textContent));
    }}
  }}).observe(document, {{ childList: true, characterData: true, subtree: true }});
"""


def told(page: Page, words: str) -> list[Any]:
    return [one for one in page.evaluate("told") if words in one[1]]


def test_each_message_is_announced_once_when_it_is_whole(page: Page) -> None:
    page.add_init_script(LISTEN)
    begin(page, "interviewer", "Ask me something")
    expect(page.locator("form.question")).to_be_visible()
    until(page, "() => told.some(([, words]) => words.includes('favourite colour'))")
    assert len(told(page, "favourite colour")) == 1
    assert len(told(page, "Let me")) == 1, "what streamed is read when it is whole"
    page.get_by_label("Colour").fill("green")
    page.get_by_role("button", name="Send answer").click()
    heard(page, "nothing else")
    settled(page)
    assert [region for region, _ in told(page, "nothing else")] == ["announcer"]
    assert told(page, "green") == told(page, "nothing else"), "one knows what one said oneself"
    star = page.get_by_role("button", name="4 of 5")
    star.click()
    expect(page.get_by_label("Why?")).to_be_visible()
    assert len(told(page, "Good")) == 1
    words = [text for _, text in page.evaluate("told")]
    assert len(words) == len(set(words)), words
    # A page that is opened again is read by whoever reads it: nothing happened
    page.reload()
    heard(page, "nothing else")
    expect(page.locator("#panel-timeline svg")).to_be_visible()
    assert page.evaluate("told") == []


def test_what_streamed_is_not_told_again_by_the_message_that_repeats_it(page: Page) -> None:
    page.add_init_script(LISTEN)
    begin(page, "storyteller", "Tell me a story")
    heard(page, "river")
    settled(page)
    until(page, "() => told.some(([, words]) => words.includes('river'))")
    assert len(told(page, "river")) == 1
    assert not [words for _, words in page.evaluate("told") if words.endswith(":")]


def test_only_what_is_meant_to_be_announced_is_live(page: Page) -> None:
    begin(page, "storyteller", "Tell me a story")
    heard(page, "river")
    settled(page)
    live_ones = page.locator(LIVE).evaluate_all("all => all.map((one) => one.id || one.className)")
    assert sorted(live_ones) == [
        "announcer",
        "composer-error error small",
        "line-state",
        "palette-state muted small",
        "toasts",
    ]


def test_what_was_done_is_said_once(page: Page) -> None:
    page.add_init_script(LISTEN)
    begin(page, "echo", "to be pinned")
    heard(page, "to be pinned")
    settled(page)
    key = session_of(page)
    page.goto("/agents")
    live(page)
    row = page.locator(f".recent [data-key='{key}']")
    entry(page, key).focus()
    row.locator("[data-more]").press("Enter")
    page.get_by_role("menuitem", name="Pin", exact=True).press("Enter")
    expect(row.locator("xpath=self::*[@data-pinned]")).to_have_count(1)
    assert page.evaluate("told") == [["toasts", "Pinned: it stays at the top."]]
    row.locator("[data-more]").press("Enter")
    page.get_by_role("menuitem", name="Unpin").press("Enter")  # it would stand above what others look for
    expect(row.locator("xpath=self::*[@data-pinned]")).to_have_count(0)
