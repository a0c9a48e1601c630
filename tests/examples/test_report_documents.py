"""A report is complete in every format, and nothing from the file escapes into its markup."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from examples.report.charts import drawn
from examples.report.document import Length, composed
from examples.report.findings import analysed
from examples.report.html import as_html
from examples.report.markdown import as_markdown
from examples.report.pdf import as_pdf
from examples.report.table import read_table

# Matplotlib tells of the characters that it draws as boxes.
pytestmark = pytest.mark.filterwarnings("ignore:Glyph:UserWarning")

HOSTILE = [
    "<script>alert(1)</script>",
    "a|b",
    "]]>",
    "-->",
    "`code`",
    "[x](javascript:alert(1))",
    "https://evil.example/",
    "$\\frac{1}{0}$",
    "<img src=x onerror=alert(1)>",
    "**bold**",
    "&amp;",
    "東京 🗼 مدينة",
]


def document_of(text, source="data.csv", length=Length.FULL):
    analysis = analysed(read_table(text.encode()), source)
    return composed(analysis, length, drawn(analysis.columns) if length is Length.FULL else None)


def hostile_document():
    header = ";".join(f'"{name}"' for name in HOSTILE)
    row = ";".join(f'"{value}"' for value in reversed(HOSTILE))
    numbers = ";".join(str(n) for n in range(len(HOSTILE)))
    return document_of("\n".join([header, row, row, row, numbers, numbers]), source="<b>x</b>.csv")


def sales(rows=40):
    lines = [f"{n % 7},{n * 1.37:.2f},{'North' if n % 3 else 'South'},2024-03-{n % 28 + 1:02}" for n in range(rows)]
    return "units,revenue,region,day\n" + "\n".join(lines)


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.seen, self.attributes, self.text = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text.append(data)


def test_a_full_report_has_everything():
    document = document_of(sales())
    assert [grid.heading for grid in document.grids] == ["Columns", "Numbers", "Text", "Dates"]
    assert document.chart is not None
    page, text = as_html(document), as_markdown(document)
    for wanted in ("Report on data.csv", "40 rows", "revenue", "North", "2024-03-01", "Std. dev."):
        assert wanted in page
        assert wanted in text
    assert "<svg" in page
    plain = document_of("a,b\nx,y\n")
    assert plain.chart is None
    assert "<figure>" not in as_html(plain)
    assert "(chart.png)" in text
    assert as_pdf(document).startswith(b"%PDF-")


def test_a_short_report_is_a_paragraph_and_a_table():
    document = document_of(sales(), length=Length.SHORT)
    assert (document.chart, list(document.findings), len(document.grids)) == (None, [], 1)
    assert "<svg" not in as_html(document)
    wide = ",".join(f"c{n}" for n in range(200)) + "\n" + ",".join("1" for _ in range(200))
    document = document_of(wide, length=Length.SHORT)
    assert document.grids[0].rows[-1][0] == "and 175 more columns"
    assert pages(as_pdf(document)) == 1


def test_a_report_of_hostile_words_needs_and_runs_nothing_else():
    document = hostile_document()
    ElementTree.fromstring(document.chart.svg)
    assert document.chart.png.startswith(b"\x89PNG")
    assert as_pdf(document).rstrip().endswith(b"%%EOF")
    page = Tags(as_html(document))
    assert not {"script", "img", "link", "iframe", "object", "a", "b"} & set(page.seen)
    names = {name for name, _ in page.attributes}
    assert not any(name.startswith("on") for name in names)
    assert not {
        value for name, value in page.attributes if name in ("src", "href") and not value.startswith(("#", "data:"))
    }
    shown = "".join(page.text)
    for value in HOSTILE:
        assert value[:30].rstrip() in shown


def test_markdown_shows_the_text_of_the_file_as_it_is():
    html = MarkdownIt("gfm-like", {"linkify": False}).render(as_markdown(hostile_document()))
    page = Tags(html)
    assert not {"script", "a", "b", "strong", "em", "code"} & set(page.seen)
    assert page.seen.count("img") == 1
    shown = "".join(page.text)
    for value in HOSTILE:
        assert value[:30].rstrip() in shown
    assert page.seen.count("table") >= 2


def pages(pdf):
    return int(re.search(rb"/Type /Pages.*?/Count (\d+)|/Count (\d+)", pdf, re.DOTALL)[0].rsplit(b" ", 1)[1])
