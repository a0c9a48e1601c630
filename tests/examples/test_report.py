"""The Report agent asks for what it lacks, delivers each format, and changes its report on request."""

import base64
from html.parser import HTMLParser

import pytest

from agentkit import Completed, testing
from agentkit.content.messages import text_part, url_part
from examples import pages
from examples.report.agent import full_page, short_page
from examples.report.analysis import analyse
from examples.report.charts import draw_columns
from examples.report.tables import read_table
from tests.examples.saying import HANDLERS, names_of, wire

# Matplotlib warns of characters that it draws as boxes.
pytestmark = pytest.mark.filterwarnings("ignore:Glyph:UserWarning")

REPORT = HANDLERS["report"]
CSV = b"city,size,since\nRome,2.8,2001-01-01\nOslo,0.7,2003-05-01\nBern,,2004-01-01\nRome,2.9,2005-01-01\n"
FORMATS = {
    "PDF": ("report.pdf", "application/pdf"),
    "HTML": ("report.html", "text/html"),
    "Markdown": ("report.md", "text/markdown"),
}


def content(run):
    (part,) = run.artifacts[0].parts
    return base64.b64decode(part["raw"]) if "raw" in part else part["text"].encode()


async def asked_for_the_format():
    return await testing.run(REPORT, "make a report", files={"cities.csv": CSV})


async def test_a_file_leads_to_question_and_report():
    first = await asked_for_the_format()
    assert first.said == "Your table has 4 rows and 3 columns. Which format would you like: PDF, HTML or Markdown?"
    assert first.outcome.schema["enum"] == ["PDF", "HTML", "Markdown"]
    assert (await first.answer("PDF or HTML")).said.startswith("I did not find one of the formats in your answer.")
    for name, (file_name, media_type) in FORMATS.items():
        run = await first.answer(f"I'd say {name}.")
        delivered, chart = run.artifacts
        assert (delivered.name, delivered.parts[0]["mediaType"]) == (file_name, media_type)
        assert (chart.name, chart.parts[0]["mediaType"]) == ("chart.png", "image/png")
        said = "Your report is ready. The file has 4 rows and 3 columns; 1 value (8.3 %) is missing"
        assert run.said.startswith(said)
        assert len(run.recorder.progress) == 4


async def test_without_a_usable_file_one_is_asked_for():
    for said, reason in (
        (wire(text_part("report")), "Please send a CSV file"),
        (testing.user_message("report", {"empty.csv": b""}), "“empty.csv”. It is empty."),
        (testing.user_message("report", {"letter.txt": b"Dear Ada.\nHow are you today?\nYours."}), "running text"),
        (wire(text_part("report"), url_part("https://example.org/x.csv", "x.csv")), "“x.csv”"),
        (wire(text_part("as Markdown"), {"raw": "%%%", "filename": "x.csv"}), "“x.csv”"),
    ):
        run = await testing.run(REPORT, said)
        assert run.outcome.slot == "file"
        assert reason in run.said
    again = await run.answer("here")
    assert (again.outcome.slot, again.said.count("Please send")) == ("file", 1)
    assert names_of(await again.answer("here", files={"cities.csv": CSV}))[0] == "report.md"
    earlier = testing.user_message("look at this", {"cities.csv": CSV, "photo.png": b"\x89PNG"})
    run = await testing.run(REPORT, "make a report as markdown", history=[earlier])
    assert b"cities.csv" in content(run)


async def test_a_shorter_report_keeps_its_name_and_file():
    first = await asked_for_the_format()
    newer = testing.user_message("another", {"newer.csv": b"x,y\n1,2\n3,4\n"})
    for name in FORMATS:
        full = await first.answer(name)
        reference = full.as_reference(first.task.message)
        short = await testing.run(REPORT, "Make it shorter", references=[reference], history=[newer])
        assert names_of(short) == names_of(full)[:1]
        assert short.artifacts[0].artifact_id != full.artifacts[0].artifact_id
        assert len(content(short)) < len(content(full))
    assert b"Report on cities.csv" in content(short)
    history = [first.task.message]
    as_html = await testing.run(REPORT, "the same as HTML", references=[short.as_reference()], history=history)
    assert names_of(as_html) == ["report.html"]
    full = await testing.run(REPORT, "the full version again", references=[as_html.as_reference()], history=history)
    assert names_of(full) == ["report.html", "chart.png"]


OPEN = b"item\tweight\nA\t1,250\nB\t2,500\nC\t3,750\n"


@pytest.mark.parametrize(("answer", "mean"), [("Comma as decimal sign", "mean 2.5"), ("the point", "mean 2,500")])
async def test_an_open_decimal_sign_is_asked_for_once(answer, mean):
    first = await testing.run(REPORT, "a short report as Markdown", files={"w.tsv": OPEN})
    assert first.outcome.slot == "decimal"
    done = await first.answer(answer)
    assert mean in content(done).decode()
    again = await testing.run(
        REPORT,
        "as HTML",
        references=[done.as_reference(done.task.message, first.task.message)],
        history=[first.task.message, done.task.message],
    )
    assert isinstance(again.outcome, Completed), "the answer holds for the same file"


# Its documents


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


def test_hostile_words_in_a_report_run_nothing():
    header, row = (";".join(f'"{value}"' for value in values) for values in (HOSTILE, reversed(HOSTILE)))
    numbers = ";".join(str(n) for n in range(len(HOSTILE)))
    table = read_table("\n".join([header, row, row, row, numbers, numbers]).encode())
    analysis = analyse(table, "<b>x</b>.csv")
    chart = draw_columns(analysis.columns, "chart.png")
    text = full_page(analysis, chart)
    assert len(short_page(analysis)) < len(text)
    assert pages.as_pdf(analysis.title, text, [chart]).rstrip().endswith(b"%%EOF")
    page = Tags(pages.as_html(analysis.title, text, [chart]))
    assert not {"script", "link", "iframe", "object", "a", "b", "strong", "em", "code"} & set(page.seen)
    assert page.seen.count("img") == 1
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert all(value.startswith("data:image/png") for name, value in page.attributes if name in ("src", "href"))
    said = "".join(page.text)
    for value in HOSTILE:
        assert value[:30].rstrip() in said
