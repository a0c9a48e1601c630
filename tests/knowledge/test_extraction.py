"""What is read of files, and how it is cut into passages."""

import io
import zipfile

import pytest
from fpdf import FPDF

from agentkit.llm.reading import DOCX, PDF, XLSX, NoText
from apps.optional.knowledge import extraction, reading
from apps.optional.knowledge.extraction import read
from apps.optional.knowledge.passages import LONGEST, Piece, cut

W = "xmlns:w='http://schemas.openxmlformats.org/wordprocessingml/2006/main'"
S = "xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main'"


def packed(**parts):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return made.getvalue()


def places(content, media_type, name=""):
    return [(one.heading, one.page, one.text) for one in read(content, media_type, name).passages]


def test_pdf_passages_have_pages():
    made = FPDF()
    for words in ("Depths of plate 7", "", "The end"):
        made.add_page()
        made.set_font("helvetica")
        if words:
            made.cell(text=words)
    assert places(bytes(made.output()), PDF) == [("", 1, "Depths of plate 7"), ("", 3, "The end")]


def test_word_passages_have_headings():
    styles = f"<w:styles {W}><w:style w:styleId='berschrift2'><w:name w:val='heading 2'/></w:style></w:styles>"
    said = "".join(
        f"<w:p><w:pPr><w:pStyle w:val='{style}'/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"
        for style, text in (("", "Preface " * 40), ("berschrift2", "Leave"), ("", "Thirty days."))
    )
    table = "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>May</w:t></w:r></w:p></w:tc><w:tc><w:p/></w:tc></w:tr></w:tbl>"
    document = f"<w:document {W}>{said}{table}</w:document>"
    content = packed(**{"word/document.xml": document, "word/styles.xml": styles})
    assert places(content, DOCX) == [("", None, ("Preface " * 40).strip()), ("Leave", None, "Leave\nThirty days.\nMay")]


def test_rows_have_the_names_of_their_columns():
    content = b'Name;City\nAnn;Rome\n;\nBob;"Ulm\nWest"\n'
    text = "Name, City\n\nName: Ann; City: Rome\n\nName: Bob; City: Ulm"
    assert places(content, "text/csv")[0][2].startswith(text)
    cells = "<c t='inlineStr'><is><t>Name</t></is></c>", "<c t='inlineStr'><is><t>Ann</t></is></c>"
    rows = "".join(f"<row>{cell}</row>" for cell in cells)
    book = f"<workbook {S}><sheets><sheet name='Staff'/></sheets></workbook>"
    sheet = f"<worksheet {S}><sheetData>{rows}</sheetData></worksheet>"
    xlsx = packed(**{"xl/workbook.xml": book, "xl/worksheets/sheet1.xml": sheet})
    assert places(xlsx, XLSX) == [("Sheet Staff", None, "Name\n\nName: Ann")]


def test_markdown_passages_have_heading_trails():
    text = "# Staff\n\n## Leave\nThirty days.\n```\n# no heading\n```\n\nTravel\n---\nBy train.\n# House\nQuiet."
    assert places(text.encode(), "application/octet-stream", "a.md") == [
        ("Staff › Leave", None, "# Staff\n\n## Leave\nThirty days.\n```\n# no heading\n```"),
        ("Staff › Travel", None, "Travel\n---\nBy train."),
        ("House", None, "# House\nQuiet."),
    ]


def test_page_is_read_without_what_leads_elsewhere():
    page = """<html><head><title>Our
      rules</title><style>p {}</style></head><body><nav>Home</nav><h1>Staff</h1><p>Thirty <b>days</b>.<p>Or so.
      <script>alert(1)</script><h2>Hours</h2><table><tr><td>May</td><td>8</td></tr></table><pre>a  b
 c</pre><footer>Imprint</footer></body></html>"""
    found = read(page.encode("utf-16"), "text/html")
    assert found.title == "Our rules"
    assert [(one.heading, one.text.split("\n")) for one in found.passages] == [
        ("Staff", ["Staff", "", "Thirty days.", "", "Or so."]),
        ("Staff › Hours", ["Hours", "", "May | 8 |", "", "a  b", " c"]),
    ]


def test_stated_charset_of_a_page_counts():
    page = "<html><head><meta charset='windows-1251'></head><body>Отпуск</body></html>".encode("cp1251")
    assert places(page, "text/html") == [("", None, "Отпуск")]


def test_long_texts_are_cut_between_sentences():
    sentences = [f"Sentence {number} says that nothing is lost. " for number in range(200)]
    passages = [one.text for one in cut([Piece("".join(sentences))])]
    assert "".join(passages) == "".join(sentences)
    assert all(600 <= len(one) <= LONGEST and one.startswith("Sentence") for one in passages)


@pytest.mark.parametrize("text", ["休暇は二十日です。" * 500, "ไทย" * 2_000, "x" * 10_000, "🎉" * 4_000])
def test_texts_without_spaces_are_cut(text):
    passages = [one.text for one in cut([Piece(text)])]
    assert "".join(passages) == text
    assert max(map(len, passages)) <= LONGEST
    assert "。" not in text or all(one.endswith("。") for one in passages)


def test_only_the_beginning_of_a_very_long_text(monkeypatch):
    monkeypatch.setattr(extraction, "MOST_CHARACTERS", 3_000)
    found = read(b"A word and another. " * 1_000, "text/plain")
    assert (found.is_whole, sum(len(one.text) for one in found.passages)) == (False, 3_000)


def test_many_short_sections_become_few_passages(monkeypatch):
    monkeypatch.setattr(extraction, "MOST_PASSAGES", 10)
    text = "# Names\n" + "".join(f"## {number}\nOne of them.\n" for number in range(100))
    found = read(text.encode(), "text/markdown")
    assert (len(found.passages), found.is_whole, found.passages[0].heading) == (2, True, "Names")
    assert "## 99\nOne of them." in found.passages[1].text
    longer = read("".join(f"# {number}\n{'word ' * 250}\n" for number in range(100)).encode(), "text/markdown")
    assert (len(longer.passages), longer.is_whole) == (10, False)


def test_what_databases_do_not_keep_is_left_out():
    assert list(cut([Piece("Thirty\0 \ud800days", "Le\0ave\udfff")])) == [Piece("Thirty days", "Leave")]
    page = read(b"<title>Rules&#xd800;&#0;</title><p>Thirty&#xd800;&#0; days", "text/html")
    assert "\0" not in f"{page}"
    assert f"{page}".encode()


@pytest.mark.parametrize("content", [b"", b" \n\t", b"\x00\x01\x02binary", b"<html></html>"])
def test_content_without_text_says_so(content):
    with pytest.raises(NoText):
        read(content, "text/html" if b"<" in content else "text/plain")


async def test_process_reads_a_file():
    found = await reading.read("# Größe\nSieben".encode(), "text/markdown; charset=utf-8", "a.md")
    assert found.passages == [Piece("# Größe\nSieben", "Größe")]


async def test_hostile_file_ends_its_process_alone(monkeypatch):
    greedy = "from apps.optional.knowledge import extraction as x; x.MEMORY_BYTES = 2**28"
    greedy += "; x.read = lambda *_, **k: [0] * 2**28"
    monkeypatch.setattr(reading, "BOOT", reading.BOOT.replace("from", f"{greedy}; from", 1))
    with pytest.raises(reading.Unreadable, match="too much memory"):
        await reading.read(b"words", "text/plain", "a.txt")
    monkeypatch.undo()
    monkeypatch.setattr(reading, "MOST_ANSWERED", 10)
    with pytest.raises(reading.Unreadable):
        await reading.read(b"Many words.", "text/plain", "a.txt")
    monkeypatch.undo()
    with pytest.raises(reading.Unreadable, match="damaged"):
        await reading.read(b"%PDF-1.7 nothing", PDF, "a.pdf")
