"""Every format of a report is complete and escapes the file's content."""

from html.parser import HTMLParser

import pytest

from examples import pages
from examples.report.agent import full_page, short_page
from examples.report.analysis import analyse
from examples.report.charts import draw_columns
from examples.report.tables import read_table

# Matplotlib warns of characters that it draws as boxes.
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


def analysis_of(text, source="data.csv"):
    return analyse(read_table(text.encode()), source)


def hostile_page():
    header = ";".join(f'"{name}"' for name in HOSTILE)
    row = ";".join(f'"{value}"' for value in reversed(HOSTILE))
    numbers = ";".join(str(n) for n in range(len(HOSTILE)))
    analysis = analysis_of("\n".join([header, row, row, row, numbers, numbers]), "<b>x</b>.csv")
    chart = draw_columns(analysis.columns, "chart.png")
    return analysis.title, full_page(analysis, chart), [chart]


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
    analysis = analysis_of(sales())
    chart = draw_columns(analysis.columns, "chart.png")
    text = full_page(analysis, chart)
    page = pages.as_html(analysis.title, text, [chart])
    for wanted in ("Report on data.csv", "40 rows", "revenue", "North", "2024-03-01", "Std. dev."):
        assert wanted in page
        assert wanted in text
    assert "(chart.png)" in text
    assert 'src="data:image/png;base64,' in page
    assert pages.as_pdf(analysis.title, text, [chart]).startswith(b"%PDF-")
    assert draw_columns(analysis_of("a,b\nx,y\n").columns, "chart.png") is None


def test_a_short_report_is_a_paragraph_and_a_table():
    wide = analysis_of(",".join(f"c{n}" for n in range(200)) + "\n" + ",".join("1" for _ in range(200)))
    text = short_page(wide)
    assert text.count("\n## ") == 1
    assert "and 175 more columns" in text
    assert len(text) < len(full_page(wide, None))


def test_a_report_of_hostile_words_needs_and_runs_nothing_else():
    title, text, shown = hostile_page()
    assert pages.as_pdf(title, text, shown).rstrip().endswith(b"%%EOF")
    page = Tags(pages.as_html(title, text, shown))
    assert not {"script", "link", "iframe", "object", "a", "b", "strong", "em", "code"} & set(page.seen)
    assert page.seen.count("img") == 1
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert all(value.startswith("data:image/png") for name, value in page.attributes if name in ("src", "href"))
    said = "".join(page.text)
    for value in HOSTILE:
        assert value[:30].rstrip() in said
