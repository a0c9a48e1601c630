"""What models are given of conversations and files: words, text of any encoding and document, or the file itself."""

import io
import zipfile
from xml.sax.saxutils import escape

import pytest
from fpdf import FPDF
from pydantic_ai.messages import BinaryContent, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart

from agentkit import Thread, data_part, testing, text_part, url_part
from agentkit.content.messages import File, raw_part
from agentkit.llm import LlmWorker, from_model_messages, reading, to_model_messages
from agentkit.llm.reading import DOCX, PDF, PPTX, XLSX, NoText, Sight, file_text, sight_of
from tests.model_agents.endpoint import refuses, says

WORDS = "Größe – 7 m²"
W, A = "http://schemas.openxmlformats.org/wordprocessingml/2006/main", "http://schemas.openxmlformats.org/drawingml"
S = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def text_of(content: bytes, media_type: str, name: str = "f") -> str:
    return file_text(File(raw_part(content, name, media_type))).text


@pytest.mark.parametrize(
    ("encoding", "media_type"),
    [
        ("utf-8", "text/x-rust"),
        ("utf-16", "text/plain"),
        ("utf-16-le", "application/octet-stream"),
        ("cp1252", "text/plain"),
        ("cp437", "text/plain; charset=cp437"),
    ],
)
def test_text_of_any_encoding_is_read(encoding, media_type):
    words = WORDS if encoding != "cp437" else "Größe 7"
    assert text_of(words.encode(encoding), media_type) == words


def packed(**parts: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return made.getvalue()


def test_the_text_of_office_documents_is_read():
    word = f"<w:p><w:r><w:t>{WORDS}</w:t></w:r></w:p><w:p><w:r><w:t>Second</w:t></w:r></w:p>"
    docx = packed(**{"word/document.xml": f"<w:document xmlns:w='{W}'>{word}</w:document>"})
    assert text_of(docx, DOCX) == f"{WORDS}\nSecond"
    rows = "<row><c t='s'><v>0</v></c><c><v>7.5</v></c></row><row><c t='inlineStr'><is><t>in</t></is></c></row>"
    xlsx = packed(
        **{
            "xl/workbook.xml": f"<workbook xmlns='{S}'><sheets><sheet name='Depths'/></sheets></workbook>",
            "xl/sharedStrings.xml": f"<sst xmlns='{S}'><si><t>{WORDS}</t></si></sst>",
            "xl/worksheets/sheet1.xml": f"<worksheet xmlns='{S}'><sheetData>{rows}</sheetData></worksheet>",
        }
    )
    assert text_of(xlsx, XLSX) == f"[Sheet Depths]\n{WORDS}\t7.5\nin"
    slides = {f"ppt/slides/slide{at}.xml": f"<s xmlns:a='{A}'><a:p><a:t>n{at}</a:t></a:p></s>" for at in (10, 2)}
    assert text_of(packed(**slides), PPTX) == "[Slide 2]\nn2\n\n[Slide 10]\nn10"


def test_the_text_of_a_pdf_is_read():
    made = FPDF()
    for words in ("Depths of plate 7", "The end"):
        made.add_page()
        made.set_font("helvetica")
        made.cell(text=words)
    assert text_of(bytes(made.output()), PDF) == "[Page 1]\nDepths of plate 7\n\n[Page 2]\nThe end"


def test_what_has_no_text_says_why(monkeypatch):
    bomb = "<!DOCTYPE d [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;'>]><d><t>&b;</t></d>"
    huge = packed(**{"word/document.xml": escape("x" * 1000)})
    for content, media_type in (
        (b"PK\3\4\0\0", "application/zip"),
        (b"no zip", DOCX),
        (packed(other="x"), XLSX),
        (packed(**{"word/document.xml": bomb}), DOCX),
        (b"%PDF-1.7 nothing", PDF),
    ):
        with pytest.raises(NoText):
            text_of(content, media_type)
    monkeypatch.setattr(reading, "UNPACKED_BYTES", 999)
    with pytest.raises(NoText, match="too large"):
        text_of(huge, DOCX)


def test_a_models_name_tells_what_it_sees():
    for name in ("gpt-4o-mini", "o3", "claude-sonnet-4-5", "llama3.2-vision:11b"):
        assert sight_of(name).images, name
    for name in ("gpt-3.5-turbo", "llama3.1:8b", "o3-mini", "gpt-oss:20b"):
        assert not sight_of(name).images, name
    assert sight_of("our-own-model") == Sight()
    assert sight_of("gpt-4o", is_openai=True).pdf
    assert not sight_of("gpt-4o").pdf, "endpoints that imitate OpenAI's take no PDF"


# Conversations

PIXEL = b"\x89PNG\r\n\x1a\n"


def contents(thread: Thread) -> list[object]:
    return [part.content for message in to_model_messages(thread) for part in message.parts]


def test_a_thread_goes_there_and_back():
    thread = Thread().add("user", "Hello").add("agent", "Good day").add("user", "Who are you?")
    messages = to_model_messages(thread)
    assert [type(one) for one in messages] == [ModelRequest, ModelResponse, ModelRequest]
    assert from_model_messages(messages) == thread
    called = [
        ModelRequest(parts=[UserPromptPart(["Look:", BinaryContent(PIXEL, media_type="image/png")])]),
        ModelResponse(parts=[ToolCallPart("look", {})]),
        ModelResponse(parts=[TextPart("A pixel.")]),
    ]
    assert from_model_messages(called) == Thread().add("user", "Look:").add("agent", "A pixel.")


def test_data_is_words_and_files_are_named():
    parts = [
        text_part("See:"),
        data_part({"a": 1}),
        raw_part(b"x,y\n1,2", "t.csv", "text/csv"),
        raw_part(b"", "16-empty.txt", "text/plain"),
        raw_part(b"\0\1", "p.pdf", "application/pdf"),
        url_part("https://a.example/b"),
    ]
    (content,) = contents(Thread().add("user", parts))
    assert content.split("\n\n") == [
        "See:",
        '{"a": 1}',
        "[A file: t.csv, text/csv]\nx,y\n1,2",
        "[A file: 16-empty.txt, text/plain. It is empty.]",
        "[A file: p.pdf, application/pdf, 2 bytes. It is damaged, or protected by a password.]",
        "[A link to a file: https://a.example/b]",
    ]


async def test_a_blind_model_is_told_in_words(endpoint):
    endpoint.replies = [refuses(400, "no images please"), says("I see none.")]
    message = testing.user_message("Look", {"p.png": PIXEL, "t.csv": b"x,y"})
    assert await LlmWorker("Help.").run(message=message) == "I see none."
    shown, told = (one["messages"][-1]["content"] for one in endpoint.requests)
    assert [part["type"] for part in shown] == ["text", "image_url"]
    assert "p.png, image/png, 8 bytes. You cannot see pictures." in told
    assert "x,y" in told
