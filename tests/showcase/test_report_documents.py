"""A report is complete in every format, and nothing from the file escapes into its markup."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from apps.showcase.report.charts import drawn
from apps.showcase.report.document import Document, Grid, Length, Section, composed
from apps.showcase.report.findings import analysed
from apps.showcase.report.html import as_html
from apps.showcase.report.markdown import as_markdown
from apps.showcase.report.pdf import as_pdf
from apps.showcase.report.table import read_table

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
    assert "(chart.png)" in text
    assert as_pdf(document).startswith(b"%PDF-")


def test_a_short_report_is_a_paragraph_and_a_table():
    document = document_of(sales(), length=Length.SHORT)
    assert (document.chart, list(document.findings), len(document.grids)) == (None, [], 1)
    assert "<svg" not in as_html(document)
    assert pages(as_pdf(document)) == 1
    wide = ",".join(f"c{n}" for n in range(200)) + "\n" + ",".join("1" for _ in range(200))
    document = document_of(wide, length=Length.SHORT)
    assert document.grids[0].rows[-1][0] == "and 175 more columns"
    assert pages(as_pdf(document)) == 1


def test_an_html_report_needs_and_runs_nothing_else():
    page = Tags(as_html(hostile_document()))
    assert not {"script", "img", "link", "iframe", "object", "a", "b"} & set(page.seen)
    names = {name for name, _ in page.attributes}
    assert not any(name.startswith("on") for name in names)
    assert not {
        value for name, value in page.attributes if name in ("src", "href") and not value.startswith(("#", "data:"))
    }
    shown = "".join(page.text)
    for value in HOSTILE:
        assert value[:30].rstrip() in shown


def test_the_chart_in_it_is_well_formed():
    document = hostile_document()
    ElementTree.fromstring(document.chart.svg)
    assert document.chart.png.startswith(b"\x89PNG")


def test_markdown_shows_the_text_of_the_file_as_it_is():
    html = MarkdownIt("gfm-like", {"linkify": False}).render(as_markdown(hostile_document()))
    page = Tags(html)
    assert not {"script", "a", "b", "strong", "em", "code"} & set(page.seen)
    assert page.seen.count("img") == 1
    shown = "".join(page.text)
    for value in HOSTILE:
        assert value[:30].rstrip() in shown
    assert page.seen.count("table") >= 2


def test_sections_come_after_the_tables_and_escape_alike():
    chart = document_of(sales()).chart
    sections = [
        Section(name, [name], chart, [Grid(name, ("a", "b"), [[name, name]], (False, True))]) for name in HOSTILE
    ]
    document = Document("Long", "It is long.", (), None, (), ("A note.",), sections)
    text, page = as_markdown(document), Tags(as_html(document))
    shown = "".join(Tags(MarkdownIt("gfm-like", {"linkify": False}).render(text)).text)
    for value in HOSTILE:
        assert shown.count(value) == "".join(page.text).count(value) == 5
    assert text.rstrip().endswith("- A note.")
    assert page.seen.count("figure") == page.seen.count("table") == page.seen.count("h3") == len(HOSTILE)
    assert not {"script", "a", "b", "strong", "em", "code"} & set(page.seen)
    assert pages(as_pdf(document)) > 1


def test_a_pdf_of_any_script_is_whole():
    assert as_pdf(hostile_document()).rstrip().endswith(b"%%EOF")


def test_a_wide_table_goes_on_over_many_pages():
    header = ",".join(f"measure number {n}" for n in range(200))
    rows = "\n".join(",".join(str((n * row) % 89) for n in range(200)) for row in range(1, 21))
    pdf = as_pdf(document_of(f"{header}\n{rows}"))
    assert pages(pdf) > 5


@pytest.mark.parametrize("text", ["a,b\nx,y\n", "d,e\n2024-01-01,2024-01-02\n2024-01-03,2024-01-04\n"])
def test_a_table_with_nothing_to_draw_makes_a_report_without_a_chart(text):
    document = document_of(text)
    assert document.chart is None
    assert "<figure>" not in as_html(document)
    assert as_pdf(document).startswith(b"%PDF-")


def pages(pdf):
    return int(re.search(rb"/Type /Pages.*?/Count (\d+)|/Count (\d+)", pdf, re.DOTALL)[0].rsplit(b" ", 1)[1])
