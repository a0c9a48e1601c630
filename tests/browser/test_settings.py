"""What only a browser shows of the settings."""

from playwright.sync_api import expect

DAY = """async () => {
  const { shortTime } = await import(document.querySelector("[href*='js/format']").href);
  return shortTime("2020-01-01T20:00Z");
}"""


def test_theme_and_time_zone_follow_to_other_devices(open_browser, complaints):
    """A page that a browser kept from before does not bring the old theme back."""
    first = open_browser(timezone_id="Europe/Oslo", color_scheme="light").new_page()
    other = open_browser(timezone_id="Europe/Oslo", color_scheme="light").new_page()
    first.goto("/settings/appearance")
    kept = first.content()
    first.get_by_label("Dark").check()
    first.get_by_role("button", name="Save").click()
    expect(first.get_by_role("status").filter(has_text="Saved")).to_be_visible()
    first.goto("/settings/profile")
    first.get_by_label("Time zone").select_option("Asia/Tokyo")
    first.get_by_role("button", name="Save").click()
    expect(first.get_by_role("status").filter(has_text="Saved")).to_be_visible()

    other.add_init_script("""new MutationObserver((_, watch) => {
      if (document.body) watch.disconnect(globalThis.begins = getComputedStyle(document.documentElement).colorScheme);
    }).observe(document, { childList: true, subtree: true })""")
    other.goto("/inbox")
    assert other.evaluate("begins") == "dark"
    assert "2" in other.evaluate(DAY).split(",")[0], "it is the next day in Tokyo"
    first.route("**/inbox", lambda route: route.fulfill(body=kept, content_type="text/html"))
    first.goto("/inbox")
    assert first.evaluate("document.documentElement.dataset.theme") == "dark"
    first.close()
    complaints.clear()  # a page that no server sent may not connect
