"""What agents write is laid out, and nothing of it runs, calls home, or looks like something of ours."""

import pytest

from apps.conversations import prose


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg onload=alert(1)>",
        "[press](javascript:alert(1))",
        "[press](data:text/html,<script>alert(1)</script>)",
        "![seen](https://tracker.example/pixel.png)",
        "<style>body{display:none}</style>",
        "<iframe src='https://evil.example'></iframe>",
        "<form action='/sign-out'><button>OK</button></form>",
        "```html\n<script>alert(1)</script>\n```",
        "`<script>`",
        '[x](https://a.example "onmouseover=alert(1)")',
    ],
)
def test_nothing_that_runs_or_loads_comes_through(hostile):
    html = prose.laid_out(hostile).lower()
    for sign in ("<script", "<img", "<svg", "<style", "<iframe", "<form", "<button", 'href="javascript', 'href="data'):
        assert sign not in html


def test_raw_html_is_shown_as_it_was_written():
    assert "&lt;b&gt;bold&lt;/b&gt;" in prose.laid_out("<b>bold</b>")


def test_markdown_is_laid_out():
    html = prose.laid_out("# Title\n\n*a* **b** ~~c~~\n\n| x |\n|---|\n| 1 |\n\n3. three")
    for sign in ("<h1>Title</h1>", "<em>a</em>", "<strong>b</strong>", "<s>c</s>", "<table ", '<ol start="3">'):
        assert sign in html


def test_what_may_be_wide_is_reached_by_keyboard():
    assert prose.laid_out("```\nlong\n```").startswith('<pre tabindex="0">')


def test_a_line_break_stays_one():
    assert "<br>" in prose.laid_out("one\ntwo")


def test_links_lead_away_without_telling_from_where():
    html = prose.laid_out("[there](https://example.org/)")
    assert 'rel="noopener noreferrer nofollow"' in html
    assert 'target="_blank"' in html


def test_code_is_coloured_where_its_language_is_known():
    assert '<span class="k">def</span>' in prose.laid_out("```python\ndef f(): pass\n```")
    assert "def f(): pass" in prose.laid_out("```no-such-language\ndef f(): pass\n```")


@pytest.mark.parametrize(
    "code",
    [
        "```amdgpu\nx = 1\n```",
        f"```python\nx = 1  # {'a' * prose.LONGEST_LINE}\n```",
        "```python\n" + "x = 1\n" * 4000 + "```",
    ],
    ids=["a language that is none of the common ones", "a long line", "much of it"],
)
def test_code_that_could_take_long_to_colour_is_shown_plain(code):
    assert "<span" not in prose.laid_out(code)


def test_a_language_is_known_by_each_of_its_names():
    for name in ("py", "Python3", "js", "R", "sh"):
        assert '<span class="' in prose.laid_out(f"```{name}\nx = 1 # one\n```"), name


def test_a_very_long_text_is_shown_as_it_is():
    html = prose.laid_out("# x\n" * prose.LONGEST)
    assert "<h1>" not in html
    assert html.startswith('<p class="verbatim">')


def test_ones_own_words_stay_as_they_were_typed():
    assert prose.verbatim("*a* <b>\n  c") == '<p class="verbatim">*a* &lt;b&gt;\n  c</p>'
