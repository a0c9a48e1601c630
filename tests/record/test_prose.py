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
    "<style>body{display:none}</style><iframe src='https://evil.example'></iframe>",
    "```html\n<script>alert(1)</script>\n```",
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
ALERT = "> [!NOTE]\n> Mind **this** <img src=x>"
SHOWN = [
    ("# Title", "<h1>Title</h1>"),
    ("*a* **b** ~~c~~", "<em>a</em> <strong>b</strong> <s>c</s>"),
    ("| x |\n|---|\n| 1 |", "<table "),
    ("```Python3\ndef f(): pass\n```", '<span class="k">def</span>'),
    ("```no-such-language\ndef f(): pass\n```", "def f(): pass"),
    (r"$\no{x} \, <y$", r'<code class="tex">$\no{x} \, &lt;y$</code>'),
    ("结论是**提示：**先备份。", "<strong>提示：</strong>先"),
    (FOLD, "<summary>More</summary>\n<p><strong>b</strong></p>\n</details>"),
    ('[1](https://www.example.org/a "A title")', 'aria-label="Source 1: A title · example.org"'),
    ("【4:0†report.pdf】", '<span class="cite">report.pdf</span>'),
    ("![e](https://far.example/f.png)", '<a href="https://far.example/f.png"'),
    ("[there](https://example.org/)", 'rel="noopener noreferrer nofollow"'),
    (ALERT, "markdown-alert markdown-alert-note"),
    (NESTED, "<p>end</p>\n"),
    ("```md\n```py\nx\n```\ny", "<p>y</p>"),
    ("$\\frac{a}{b}$ " * 5_000, '<code class="tex">'),
    ("".join(f"a[^{n}]\n\n[^{n}]: b\n\n" for n in range(5_000)), "[^4999]: b"),
    ("<details>\n" * 5_000, "&lt;details&gt;"),
    ("> $$ " * 15_000, "$$"),
    *(
        (text, r'alttext="\int_0^1 x^2"')
        for text in (r"$\int_0^1 x^2$", r"\(\int_0^1 x^2\)", "\\[\n\\int_0^1 x^2\n\\]")
    ),
]
HIDDEN = [
    *((text, "<math") for text in ("$5 and $10", "US$5/A$6", "`$a$`", r"\$a\$", "$HOME/$USER")),
    ("$$\na\n=\n- b_1 * c_2 *\n$$", "<em>"),
    ("javascript:alert(1)", "<a "),
    (ALERT, "[!"),
    (NESTED, "<p>more</p>"),
]


@pytest.mark.parametrize(("text", "sign"), SHOWN, ids=lambda value: value[:20])
def test_markdown_has_its_html(text, sign):
    assert sign in render_markdown(text)


@pytest.mark.parametrize(("text", "sign"), HIDDEN, ids=lambda value: value[:20])
def test_markdown_has_no_other_html(text, sign):
    assert sign not in render_markdown(text)


def test_slow_text_is_shown_plain():
    rare = "```amdgpu\nx = 1\n```"
    long_line = f"```python\nx = 1  # {'a' * rendering.MAX_HIGHLIGHTED_LINE}\n```"
    much = "```python\n" + "x = 1\n" * 4000 + "```"
    for code in (rare, long_line, much):
        assert "<span" not in rendering.render_markdown(code), code[:20]
    html = rendering.render_markdown("# x\n" * rendering.MAX_RENDERED)
    assert "<h1>" not in html
    assert html.startswith('<p class="verbatim">')


def test_endless_formulas_are_not_converted():
    assert formulas.mathml(r"\newcommand{\a}{\a\a}\a") is None
    assert formulas.mathml("{" * 1_000 + "}" * 1_000) is None


@pytest.mark.parametrize(
    "tex",
    [
        r"\begin{align*} a &= b \tag{2} \\ &< c \end{align*}",
        r"\left( \begin{matrix} 1 & 2 \end{matrix} \right) \lim_{x \to 0}",
        r"\textcolor{red}{x} \mbox{ if } \text{a \textbf{b}} \cancel{x} \boxed{y}",
        r"\sum_{\substack{i \\ j}} \widetilde{ab} \begin{cases} 1 & x \end{cases}",
    ],
)
def test_formulas_of_models_are_converted(tex):
    html = formulas.mathml(tex)
    assert html is not None
    assert Loads(html).found == []


def test_pictures_are_of_their_place():
    place = Surroundings("m1", lambda name: f"/own/{name}", lambda url: "/copy")
    html = render_markdown("![a](./plots/c.png) ![b](sandbox:/mnt/data/d.png) ![e](https://far.example/f.png)", place)
    for shown in ('<img src="/own/c.png" alt="a"', '<img src="/own/d.png" alt="b"', 'data-picture="/copy"'):
        assert shown in html


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Write me a poem. It should rhyme.", "Write me a poem"),
        ("Hi! Can you help me? It hurts", "Hi! Can you help me?"),
        ("# **Report** on `x`\n\n- one\n- two", "Report on x one"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("2 * 3 makes what in version 3.5 of <b>it</b>?", "2 * 3 makes what in version 3.5 of <b>it</b>?"),
        ("word " * 40, "word word word word word word word word word word word word…"),
        ("x" * 300, "x" * 60 + "…"),
        ("  \n ", ""),
    ],
)
def test_title_is_first_sentence_or_file(text, title):
    assert title_of({"parts": [{"text": text}]}) == title
    assert title_of({"parts": [{"raw": "", "filename": "plate 7.csv"}]}) == "plate 7.csv"
