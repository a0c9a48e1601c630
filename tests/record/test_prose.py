"""Agents' Markdown runs nothing, loads nothing, and cannot imitate the page."""

from apps.record.content import rendering

HOSTILE = [
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
]


def test_nothing_that_runs_or_loads_comes_through_and_raw_html_is_shown_as_it_was_written():
    signs = ("<script", "<img", "<svg", "<style", "<iframe", "<form", "<button", 'href="javascript', 'href="data')
    for hostile in HOSTILE:
        html = rendering.render_markdown(hostile).lower()
        assert not any(sign in html for sign in signs), hostile
    assert "&lt;b&gt;bold&lt;/b&gt;" in rendering.render_markdown("<b>bold</b>")


def test_markdown_is_laid_out_and_ones_own_words_stay_as_they_were_typed():
    html = rendering.render_markdown(
        "# Title\n\n*a* **b** ~~c~~\n\n| x |\n|---|\n| 1 |\n\n3. three\n\none\ntwo\n\n```\nlong\n```"
    )
    for sign in ("<h1>Title</h1>", "<em>a</em>", "<strong>b</strong>", "<s>c</s>", "<table ", '<ol start="3">', "<br>",
                 '<pre tabindex="0">'):  # fmt: skip
        assert sign in html
    assert rendering.render_plain("*a* <b>\n  c") == '<p class="verbatim">*a* &lt;b&gt;\n  c</p>'


def test_links_lead_away_without_telling_from_where():
    html = rendering.render_markdown("[there](https://example.org/)")
    assert 'rel="noopener noreferrer nofollow"' in html
    assert 'target="_blank"' in html


def test_code_is_coloured_where_its_language_is_known_by_each_of_its_names():
    assert '<span class="k">def</span>' in rendering.render_markdown("```python\ndef f(): pass\n```")
    assert "def f(): pass" in rendering.render_markdown("```no-such-language\ndef f(): pass\n```")
    for name in ("py", "Python3", "js", "R", "sh"):
        assert '<span class="' in rendering.render_markdown(f"```{name}\nx = 1 # one\n```"), name


def test_what_could_take_long_is_shown_plain():
    rare = "```amdgpu\nx = 1\n```"
    long_line = f"```python\nx = 1  # {'a' * rendering.MAX_HIGHLIGHTED_LINE}\n```"
    much = "```python\n" + "x = 1\n" * 4000 + "```"
    for code in (rare, long_line, much):
        assert "<span" not in rendering.render_markdown(code), code[:20]
    html = rendering.render_markdown("# x\n" * rendering.MAX_RENDERED)
    assert "<h1>" not in html
    assert html.startswith('<p class="verbatim">')
