"""How pages look and read: at every size, in both themes, to eyes and to screen readers."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import MEDIUM, PHONE, WIDE
from tests.browser.doing import begin, heard

WORDY = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 4
SIZES = pytest.mark.parametrize("size", [WIDE, MEDIUM, PHONE], ids=["wide", "medium", "phone"])

CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const light = (name) => {
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.color = `var(--${name})`;
    canvas.fillStyle = getComputedStyle(probe).color;
    canvas.fillRect(0, 0, 1, 1);
    probe.remove();
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = ([one, other]) => {
    const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
    return [`${one} on ${other}`, (bright + 0.05) / (dark + 0.05)];
  };
  const texts = ["text", "muted", "accent", "working", "waiting", "done", "failed", "canceled"];
  const pairs = texts.flatMap((text) => ["background", "surface", "raised"].map((under) => [text, under]));
  pairs.push(["on-accent", "accent"], ["waiting", "waiting-soft"], ["failed", "failed-soft"], ["text", "accent-soft"]);
  return [pairs.map(contrast), [["edge", "background"], ["edge", "raised"]].map(contrast)];
}"""

NAMELESS = """() => [...document.querySelectorAll("a, button, input:not([type=hidden]), textarea, iframe, img")]
  .filter((element) => element.checkVisibility())
  .filter((element) => !(element.textContent.trim() || element.ariaLabel || element.title || element.alt === ""
    || element.alt || element.labels?.length))
  .map((element) => element.outerHTML)"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_colour_can_be_read(open_browser, scheme) -> None:
    page = open_browser(color_scheme=scheme).new_page()
    page.goto("/")
    texts, signs = page.evaluate(CONTRASTS)
    assert [(pair, ratio) for pair, ratio in texts if ratio < 4.5] == []
    assert [(pair, ratio) for pair, ratio in signs if ratio < 3] == []


@SIZES
def test_nothing_sticks_out_whatever_is_written(open_browser, watched, size) -> None:
    page = open_browser(size).new_page()
    watched(page)
    begin(page, "echo", WORDY)
    heard(page, WORDY)
    for address in (page.url, "/", "/agents", "/agents/report", "/nowhere-else"):
        if address == "/nowhere-else":
            continue
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
        assert page.locator("main").first.evaluate("element => element.scrollWidth <= element.clientWidth"), address


@SIZES
def test_everything_has_a_name(open_browser, watched, size) -> None:
    page = open_browser(size).new_page()
    watched(page)
    begin(page, "asking", "A trip")
    expect(page.locator("form.question")).to_be_visible()
    assert page.evaluate(NAMELESS) == []
    for address in ("/", "/agents", "/agents/report"):
        page.goto(address)
        assert page.evaluate(NAMELESS) == [], address
        expect(page.locator("h1")).to_have_count(1)


def test_a_phone_has_its_sessions_and_agents_at_the_thumb(open_browser, watched) -> None:
    page = open_browser(PHONE).new_page()
    watched(page)
    page.goto("/")
    bar = page.get_by_role("navigation", name="Places")
    bar.get_by_role("link", name="New").click()
    page.get_by_role("combobox").fill("echo")
    page.locator("[role=option][data-href='/agents/echo']").click()
    page.wait_for_url("**/agents/echo")
    page.locator("#words").fill("small")
    page.get_by_role("button", name="Send").click()
    heard(page, "small")
    page.get_by_role("link", name="All sessions").click()
    page.wait_for_url(lambda address: address.endswith("/"))


def test_files_open_as_a_sheet_and_close_again(open_browser, watched) -> None:
    page = open_browser(PHONE).new_page()
    watched(page)
    begin(page, "echo", "keep this")
    heard(page, "keep this")
    expect(page.locator("#panel")).not_to_be_visible()
    page.get_by_role("button", name="Files 1").click()
    page.locator(".artifact-open").click()
    expect(page.locator(".preview-text")).to_contain_text("keep this")
    page.get_by_role("button", name="Close", exact=True).click()
    expect(page.locator("#panel")).not_to_be_visible()


@SIZES
def test_what_is_told_in_passing_covers_nothing_that_one_writes(open_browser, watched, size) -> None:
    page = open_browser(size).new_page()
    watched(page)
    begin(page, "echo", "a short word")
    heard(page, "a short word")
    for address in (page.url, "/agents/echo"):
        page.goto(address)
        page.evaluate("import('/static/js/toast.js').then(({ toast }) => toast('word '.repeat(60)))")
        toast, field = page.locator(".toast").bounding_box(), page.locator(".composer").bounding_box()
        assert toast
        assert field
        assert toast["y"] >= 0
        assert toast["y"] + toast["height"] <= field["y"], address


def test_the_chosen_theme_stays(page: Page) -> None:
    page.goto("/")
    background = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Demo").click()
    page.get_by_role("button", name="Dark theme").click()
    expect(page.get_by_role("button", name="Light theme")).to_be_visible()
    dark = page.evaluate(background)
    assert dark != light
    page.goto("/agents")
    assert page.evaluate(background) == dark
    page.get_by_role("button", name="Demo").click()
    expect(page.get_by_role("button", name="Light theme")).to_be_visible()


def test_motion_respects_who_wants_none(open_browser) -> None:
    page = open_browser(reduced_motion="reduce").new_page()
    begin(page, "patient", "the first")
    expect(page.locator(".work .sign .icon")).to_have_css("animation-name", "none")
    heard(page, "That was the first message.")


def test_signing_out_is_in_the_menu(open_browser, parley, signed_in) -> None:
    context = open_browser(storage_state=None)
    page = context.new_page()
    page.goto("/sign-in")
    page.get_by_label("E-mail").fill(parley.demo_email)
    page.get_by_label("Password").fill(parley.demo_password)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Demo").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")
