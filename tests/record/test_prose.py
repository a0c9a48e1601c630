"""Agents' Markdown runs nothing, loads nothing, and cannot imitate the page."""

from html.parser import HTMLParser

import pytest

from apps.record.content import formulas, rendering
from apps.record.content.rendering import Surroundings, render_markdown, title_of

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


def test_markdown_runs_and_loads_nothing_foreign():
    place = Surroundings("m1", lambda name: "/own/picture", lambda url: "/own/copy?of=signed")
    signs = ("<script", "<img", "<svg", "<style", "<iframe", "<form", "<button", 'href="javascript', 'href="data')
    for hostile in HOSTILE:
        html = render_markdown(hostile).lower()
        assert not any(sign in html for sign in signs), hostile
        assert Loads(render_markdown(hostile, place)).found == [], hostile
    assert "&lt;b&gt;bold&lt;/b&gt;" in render_markdown("<b>bold</b>"), "raw HTML is shown as it was written"


NESTED = "```markdown\n# T\n```bash\nls\n```\nmore\n```\nend"
FOLD = "<details>\n<summary>More</summary>\n\n**b**\n\n</details>"
ALERT = "> [!{}]\n> Mind **this** <img src=x>"
SHOWN = [
    ("# Title", "<h1>Title</h1>"),
    ("*a* **b** ~~c~~", "<em>a</em> <strong>b</strong> <s>c</s>"),
    ("one\ntwo", "<br>"),
    ("| x |\n|---|\n| 1 |", "<table "),
    ("3. three", '<ol start="3">'),
    ("```\nlong\n```", '<pre tabindex="0">'),
    ("```python\ndef f(): pass\n```", '<span class="k">def</span>'),
    ("```no-such-language\ndef f(): pass\n```", "def f(): pass"),
    *((f"```{name}\nx = 1 # one\n```", '<span class="') for name in ("py", "Python3", "js", "R", "sh")),
    (r"$\no{x} \, <y$", r'<code class="tex">$\no{x} \, &lt;y$</code>'),
    ("结论是**提示：**先备份。", "<strong>提示：</strong>先"),
    ("~~（旧）~~新", "<s>（旧）</s>"),
    ("- [x] done", 'checked=""'),
    ("- [ ] open", 'disabled=""'),
    (FOLD, "<summary>More</summary>"),
    (FOLD, "<p><strong>b</strong></p>\n</details>"),
    ('[1](https://www.example.org/a "A title")', 'aria-label="Source 1: A title · example.org"'),
    ("[[2]][2]\n\n[2]: https://b.example", '<span class="source">b.example</span>'),
    ("【4:0†report.pdf】", '<span class="cite">report.pdf</span>'),
    ("![e](https://far.example/f.png)", '<a href="https://far.example/f.png"'),
    *((ALERT.format(kind), f"markdown-alert markdown-alert-{kind.lower()}") for kind in ("NOTE", "tip", "CAUTION")),
    (ALERT.format("NOTE"), "<strong>this</strong>"),
    (NESTED, "<p>end</p>\n"),
    ("```md\nx\n```\ny\n```py\nz\n```", "<p>y</p>"),
    ("```md\n```py\nx\n```\ny", "<p>y</p>"),
    ("$\\frac{a}{b}$ " * 5_000, '<code class="tex">'),
    ("".join(f"a[^{n}]\n\n[^{n}]: b\n\n" for n in range(5_000)), "[^4999]: b"),
    ("<details>\n" * 5_000, "&lt;details&gt;"),
    ("$" * 90_000, "$$$$"),
    ("> $$ " * 15_000, "$$"),
]
HIDDEN = [
    *((text, "<math") for text in ("$5 and $10", "US$5/A$6", "`$a$`", "    $a$", r"\$a\$", "$HOME/$USER")),
    *(("$$\na\n=\n- b_1 * c_2 *\n$$", sign) for sign in ("<h1>", "<ul>", "<em>", "<code")),
    ("javascript:alert(1)", "<a "),
    *((ALERT.format("NOTE"), sign) for sign in ("[!", "<img")),
    (NESTED, "<p>more</p>"),
]


@pytest.mark.parametrize(("text", "sign"), SHOWN, ids=lambda value: value[:20])
def test_markdown_has_its_html(text, sign):
    assert sign in render_markdown(text)


@pytest.mark.parametrize(("text", "sign"), HIDDEN, ids=lambda value: value[:20])
def test_markdown_has_no_other_html(text, sign):
    assert sign not in render_markdown(text)


def test_links_tell_no_referrer():
    html = render_markdown("[there](https://example.org/)")
    assert 'rel="noopener noreferrer nofollow"' in html
    assert 'target="_blank"' in html


def test_ones_own_words_stay_as_typed():
    assert rendering.render_plain("*a* <b>\n  c") == '<p class="verbatim">*a* &lt;b&gt;\n  c</p>'


def test_slow_text_is_shown_plain():
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
def test_each_notation_becomes_mathml(text):
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
def test_formulas_of_models_are_converted(tex):
    html = formulas.mathml(tex)
    assert html is not None
    assert Loads(html).found == []


def test_endless_formulas_are_not_converted():
    assert formulas.mathml(r"\newcommand{\a}{\a\a}\a") is None
    assert formulas.mathml("{" * 1_000 + "}" * 1_000) is None


def test_footnotes_have_ids_of_their_text():
    text = "It doubled[^1] since May[^2].\n\n[^1]: Report\n[^2]: https://example.org/r\n[^3]: Unused"
    first, second = (render_markdown(text, Surroundings(key)) for key in ("m1", "m2"))
    assert 'href="#fn-m1-1" id="fnref-m1-1"' in first
    assert '<li id="fn-m1-2"' in first
    assert "Unused" in first
    assert "m1" not in second


def test_pictures_are_of_their_place():
    place = Surroundings("m1", lambda name: f"/own/{name}", lambda url: "/copy")
    html = render_markdown("![a](./plots/c.png) ![b](sandbox:/mnt/data/d.png) ![e](https://far.example/f.png)", place)
    assert '<img src="/own/c.png" alt="a"' in html
    assert '<img src="/own/d.png" alt="b"' in html
    assert 'data-picture="/copy"' in html
    assert "Show picture from far.example" in html


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Write me a poem. It should rhyme.", "Write me a poem"),
        ("Hi! Can you help me? It hurts", "Hi! Can you help me?"),
        ("# **Report** on `x`\n\n- one\n- two", "Report on x one"),
        (
            "Summarize the [paper](https://example.org/a.pdf) and ~~not~~ its notes",
            "Summarize the paper and not its notes",
        ),
        ("```python\nprint(1)\n```", "print(1)"),
        ("2 * 3 * 4 makes what in version 3.5 of it?", "2 * 3 * 4 makes what in version 3.5 of it?"),
        ("<b>bold</b> & more words", "<b>bold</b> & more words"),
        ("word " * 40, "word word word word word word word word word word word word…"),
        ("x" * 300, "x" * 60 + "…"),
        ("  \n ", ""),
    ],
)
def test_it_is_the_first_sentence_as_plain_text(text, title):
    assert title_of({"parts": [{"text": text}]}) == title


def test_a_file_alone_gives_its_name():
    assert title_of({"parts": [{"raw": "", "filename": "plate 7.csv"}]}) == "plate 7.csv"
