"""Agents' Markdown runs nothing, loads nothing, and cannot imitate the page."""

from html.parser import HTMLParser

import pytest

from apps.record.content import formulas, rendering
from apps.record.content.rendering import Surroundings, render_markdown

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
    r"$\href{javascript:alert(1)}{x}$ and $$\text{<script>alert(1)</script>}$$",
    r"\(\style{background:url(https://a.example)}{x}\) $\text{</math><img src=x onerror=alert(1)>}$",
    "$$\n</math><script>alert(1)</script>\n$$",
    '```mermaid\ngraph TD; A[<img src=x onerror=alert(1)>]-->B\nclick A href "javascript:alert(1)"\n```',
    "<details ontoggle=alert(1) open><summary onclick=alert(1)>x</summary></details>",
    "<details>\n<summary><script>alert(1)</script></summary>\n<iframe src=x>\n</details></div></main>",
    "a[^x]\n\n[^x]: <svg onload=alert(1)> [press](javascript:alert(1))",
    'a[^" onclick="alert(1)]\n\n[^" onclick="alert(1)]: x',
    "![a](data:text/html,<script>alert(1)</script>) ![a](data:image/svg+xml,<svg onload=alert(1)>)",
    '![a" onerror="alert(1)](//tracker.example/x.png "b" onload=alert(1)")',
    "- [x] <input onfocus=alert(1) autofocus>",
    "【1†<img src=x onerror=alert(1)>】 [1](javascript:alert(1))",
    "\ufdd00\ufdd1 &#xfdd0;0&#xfdd1; \ufdd0key\ufdd1 $x$",
]


def test_nothing_that_runs_or_loads_comes_through_and_raw_html_is_shown_as_it_was_written():
    signs = ("<script", "<img", "<svg", "<style", "<iframe", "<form", "<button", 'href="javascript', 'href="data')
    for hostile in HOSTILE:
        html = rendering.render_markdown(hostile).lower()
        assert not any(sign in html for sign in signs), hostile
    assert "&lt;b&gt;bold&lt;/b&gt;" in rendering.render_markdown("<b>bold</b>")


class Loads(HTMLParser):
    """What a browser would run, or load by itself."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        runs = [f"{tag} {name}" for name, value in attrs if name.startswith(("on", "style", "hx-"))]
        loads = [f"{tag} {value}" for name, value in attrs if name in ("src", "srcset", "poster", "background")]
        self.found += runs + [one for one in loads if not one.startswith(("img /own/", "img data:image/png;base64,"))]
        if tag in {"script", "style", "iframe", "form", "svg", "object", "base", "meta", "link"}:
            self.found.append(tag)


def test_a_page_with_pictures_runs_and_loads_nothing_foreign():
    place = Surroundings("m1", lambda name: "/own/picture", lambda url: "/own/copy?of=signed")
    for hostile in HOSTILE:
        assert Loads(render_markdown(hostile, place)).found == [], hostile


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


@pytest.mark.parametrize(
    "text",
    [r"$\int_0^1 x^2 \, dx$", r"\(\int_0^1 x^2 \, dx\)", r"$$\int_0^1 x^2 \, dx$$", "\\[\n\\int_0^1 x^2 \\, dx\n\\]"],
)
def test_each_notation_of_a_formula_becomes_mathml(text):
    html = render_markdown(text)
    assert r'alttext="\int_0^1 x^2 \, dx"' in html
    assert "<msubsup>" in html


@pytest.mark.parametrize(
    "tex",
    [
        r"A e^{-\gamma t / 2} \cos(\omega t + \varphi), \qquad \lim_{x \to 0}",
        r"\begin{aligned} a &= b \\ &< c \end{aligned}",
        r"\begin{align*} a &= b \tag{2} \end{align*}",
        r"\left( \begin{matrix} 1 & 2 \end{matrix} \right)",
        r"\textcolor{red}{x} \mbox{ if } \text{a \textbf{b}} \cancel{x} \boxed{y}",
        r"\sum_{\substack{i \\ j}} \widetilde{ab} \begin{cases} 1 & x \end{cases}",
    ],
)
def test_what_models_write_is_converted(tex):
    html = formulas.mathml(tex)
    assert html is not None
    assert Loads(html).found == []


def test_a_formulas_lines_are_no_markdown():
    html = render_markdown("Thus\n$$\na\n=\n- b_1 * c_2 *\n$$\nas said.")
    assert html.count("<math") == html.count("</math>") == 1
    assert not any(sign in html for sign in ("<h1>", "<ul>", "<em>", "<code"))


@pytest.mark.parametrize(
    "text", ["$5 and $10", "US$5/A$6", "`$a$`", "    $a$", r"\$a\$", "$HOME/$USER", "costs $5 with `a$`"]
)
def test_prices_and_code_are_no_formulas(text):
    assert "<math" not in render_markdown(text)


def test_an_unknown_formula_stays_as_written():
    assert r'<code class="tex">$\no{x} \, &lt;y$</code>' in render_markdown(r"$\no{x} \, <y$")
    assert formulas.mathml(r"\newcommand{\a}{\a\a}\a") is None
    assert formulas.mathml("{" * 1_000 + "}" * 1_000) is None


def test_emphasis_beside_cjk_punctuation_is_found():
    html = render_markdown("结论是**提示：**先备份再升级。使用**「模板」**即可。~~（旧）~~新")
    assert "<strong>提示：</strong>先" in html
    assert "使用<strong>「模板」</strong>即可" in html
    assert "<s>（旧）</s>" in html


def test_footnotes_of_two_texts_have_their_own_ids():
    text = "It doubled[^1] since May[^2].\n\n[^1]: Report\n[^2]: https://example.org/r\n[^3]: Unused"
    first, second = (render_markdown(text, Surroundings(key)) for key in ("m1", "m2"))
    assert 'href="#fn-m1-1" id="fnref-m1-1"' in first
    assert '<li id="fn-m1-2"' in first
    assert "Unused" in first
    assert "m1" not in second


def test_task_lists_folds_and_bare_links_are_laid_out():
    html = render_markdown(
        "- [x] done\n- [ ] open\n\n<details>\n<summary>More</summary>\n\n**b**\n\n</details>\n\n"
        "https://example.org/x javascript:alert(1)"
    )
    assert html.count("<input") == html.count('type="checkbox"') == html.count('disabled=""') == 2
    assert html.count('checked=""') == 1
    assert "<summary>More</summary>" in html
    assert "<p><strong>b</strong></p>\n</details>" in html
    assert html.count("<a ") == 1


def test_citations_are_chips_that_name_their_source():
    html = render_markdown(
        '[1](https://www.example.org/a "A title") [[2]][2] 【4:0†report.pdf】\n\n[2]: https://b.example'
    )
    assert 'aria-label="Source 1: A title · example.org"' in html
    assert '<span class="source">b.example</span>' in html
    assert '<span class="cite">report.pdf</span>' in html


def test_pictures_are_the_places():
    place = Surroundings("m1", lambda name: f"/own/{name}", lambda url: "/copy")
    html = render_markdown("![a](./plots/c.png) ![b](sandbox:/mnt/data/d.png) ![e](https://far.example/f.png)", place)
    assert '<img src="/own/c.png" alt="a"' in html
    assert '<img src="/own/d.png" alt="b"' in html
    assert 'data-picture="/copy"' in html
    assert "Show picture from far.example" in html
    assert '<a href="https://far.example/f.png"' in render_markdown("![e](https://far.example/f.png)")


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("$\\frac{a}{b}$ " * 5_000, '<code class="tex">'),
        ("".join(f"a[^{n}]\n\n[^{n}]: b\n\n" for n in range(5_000)), "[^4999]: b"),
        ("<details>\n" * 5_000, "&lt;details&gt;"),
        ("$" * 90_000, "$$$$"),
        ("> $$ " * 15_000, "$$"),
    ],
)
def test_far_too_much_is_shown_as_written(text, rest):
    assert rest in render_markdown(text)


@pytest.mark.parametrize("kind", ["NOTE", "tip", "Important", "WARNING", "caution"])
def test_alerts_name_their_kind(kind):
    html = render_markdown(f"> [!{kind}]\n> Mind **this** <img src=x>")
    assert f'class="markdown-alert markdown-alert-{kind.lower()}"' in html
    assert "<strong>this</strong>" in html
    assert "[!" not in html
    assert "<img" not in html


def test_a_block_of_markdown_holds_blocks_of_code():
    nested = "```markdown\n# T\n```bash\nls\n```\nmore\n```\nend"
    html = render_markdown(nested)
    assert html.count("<pre") == 1
    assert html.endswith("<p>end</p>\n")
    assert render_markdown("- one\n\n" + "\n".join(f"  {line}" for line in nested.splitlines())).count("<pre") == 1
    after = "```md\nx\n```\ny\n```py\nz\n```"
    assert "<p>y</p>" in render_markdown(after), "a block without others ends at its first fence"
    assert "<p>y</p>" in render_markdown("```md\n```py\nx\n```\ny"), "a fence is missing"
