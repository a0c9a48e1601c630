"""Pages in Markdown with tables and pictures, also as one HTML file or a PDF."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape as escape_html
from pathlib import Path

from markdown_it import MarkdownIt

from agentkit import Artifact

MARKUP = re.compile(r"([\\`*_{}\[\]#|~!$])")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"  # runs nothing and loads nothing
STYLE = """
body { margin: 0 auto; max-width: 62rem; padding: 2rem; font: 16px/1.6 system-ui, sans-serif; color: #1f2430; }
img { max-width: 100%; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; }
th, td { padding: .4rem 1rem .4rem 0; text-align: left; border-bottom: 1px solid #e3e5ea; }
"""


@dataclass(frozen=True)
class Picture:
    """A PNG on a page; `name` is its file name."""

    name: str
    png: bytes
    caption: str

    @property
    def markdown(self) -> str:
        return f"![{escape(self.caption)}]({self.name})"

    @property
    def artifact(self) -> Artifact:
        return Artifact.bytes(self.name, self.png, "image/png", description=self.caption)


INK = (31, 41, 55)  # of headings on paper


def escape(text: str) -> str:
    """The text without special meaning in Markdown, HTML, table cells or automatic links."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKUP.sub(r"\\\1", plain).replace("://", ":&#47;&#47;").replace("www.", "www&#46;")


def blocks(*pieces: str) -> str:
    """Joins pieces of Markdown, without empty ones."""
    return "\n\n".join(filter(None, pieces))


def items(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {escape(sentence)}" for sentence in sentences)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, numeric: Iterable[int] = ()) -> str:
    right = set(numeric)
    rule = ["---:" if at in right else "---" for at in range(len(headers))]
    lines = [list(map(escape, headers)), rule, *(list(map(escape, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_html(title: str, markdown: str, pictures: Sequence[Picture] = ()) -> str:
    """A complete page, with its pictures embedded."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape_html(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{_rendered(markdown, pictures)}</body>\n</html>\n"
    )


def as_pdf(title: str, markdown: str, pictures: Sequence[Picture] = ()) -> bytes:
    """An A4 page, in Matplotlib's DejaVu fonts. The first call takes seconds."""
    import matplotlib as mpl
    from fpdf import FPDF, TextStyle

    fonts = Path(mpl.get_data_path()) / "fonts" / "ttf"
    paper = FPDF(format="A4")
    paper.set_title(title)
    for style, file in (("", "DejaVuSans.ttf"), ("B", "DejaVuSans-Bold.ttf"), ("I", "DejaVuSans-Oblique.ttf")):
        paper.add_font("DejaVu", style, fonts / file)
    paper.set_font("DejaVu", size=9)
    paper.add_page()
    html = _rendered(markdown, pictures).replace("<img ", '<img width="510" ')
    sizes = {"h1": 18, "h2": 13, "h3": 11}
    headings = {
        tag: TextStyle("DejaVu", "B", size, color=INK, t_margin=size / 4, b_margin=1) for tag, size in sizes.items()
    }
    paper.write_html(
        html.replace('style="text-align:right"', 'align="right"'),
        font_family="DejaVu",
        tag_styles=headings,
        li_prefix_color=INK,
    )
    return bytes(paper.output())


def _rendered(markdown: str, pictures: Sequence[Picture]) -> str:
    html: str = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    for one in pictures:
        data = base64.b64encode(one.png).decode()
        html = html.replace(f'src="{one.name}"', f'src="data:image/png;base64,{data}"')
    return html
