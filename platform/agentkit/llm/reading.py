"""What a language model can be given of a file: its text, or the file itself if the model sees.

Reading takes time: call it in a thread. It is bounded in bytes, characters and seconds.
"""

from __future__ import annotations

import codecs
import importlib
import io
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentkit.content.messages import File
from agentkit.content.zips import Zip

PDF = "application/pdf"
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
OFFICE = "application/vnd.openxmlformats-officedocument"
DOCX, XLSX, PPTX = (
    f"{OFFICE}.wordprocessingml.document",
    f"{OFFICE}.spreadsheetml.sheet",
    f"{OFFICE}.presentationml.presentation",
)
TEXTS = ("text/*", "application/json", "application/xml", "application/yaml", "application/x-ndjson")
MODEL_INPUTS = (*TEXTS, PDF, DOCX, XLSX, PPTX, *IMAGES)
"""The media types of all files that a model can be given. Text under another type counts as `text/plain`."""

FILE_CHARACTERS = 100_000
READ_BYTES = 32 * 1024 * 1024  # of one file
UNPACKED_BYTES = 16 * 1024 * 1024  # of one part of an office document
DOCUMENT_PARTS = 10_000  # files in an office document
PAGE_BYTES = 2 * 1024 * 1024  # drawing instructions of a page of a PDF
SECONDS = 20.0  # for one file
PICTURES_AND_SOUNDS = re.compile(r"(image(?!/svg)|audio|video|font)/")
NOTHING = "It has no text that can be read."
TOO_LARGE = "It is too large to read its text."


class NoText(Exception):
    """The file has no text that can be read. The message says why."""


@dataclass(frozen=True)
class FileText:
    """The text of a file. `is_whole`: nothing was cut off."""

    text: str
    is_whole: bool = True


def file_text(file: File) -> FileText:
    """The text of a file, as much as is read of its kind. Raises NoText, and UnreadableContent."""
    essence, _, parameters = file.media_type.lower().partition(";")
    if PICTURES_AND_SOUNDS.match(essence):
        raise NoText(NOTHING)
    if (file.size or 0) > READ_BYTES:
        raise NoText(TOO_LARGE)
    if essence.strip() not in DOCUMENTS:
        charset = re.search(r"charset=\"?([\w.-]+)", parameters)
        return FileText(decoded(file.read(), charset[1] if charset else ""))
    return _bounded(document_lines(essence.strip(), file.read()))


class Line(NamedTuple):
    """A line of a document: a paragraph, a row, or what is on a page.

    Attributes:
        label: where it is, such as "Page 3", "Slide 2" or "Sheet Depths"; "" in a text document.
        page: its number, from 1; None for other documents than PDFs.
        headings: those above it, the outermost first.
        cells: of a row, whose text has tabs between them.
    """

    text: str
    label: str = ""
    page: int | None = None
    headings: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()


def document_lines(media_type: str, content: bytes) -> Iterator[Line]:
    """The lines of a document of one of the types in `DOCUMENTS`. Raises NoText."""
    try:
        yield from DOCUMENTS[media_type](content)
    except (NoText, MemoryError):
        raise
    except ImportError:
        raise NoText("The text of such files cannot be read here.") from None
    except Exception:  # the libraries raise all kinds for damaged files
        raise NoText("It is damaged, or protected by a password.") from None


def _bounded(lines: Iterable[Line]) -> FileText:
    until, length, found, is_whole, label = time.monotonic() + SECONDS, 0, list[str](), True, ""
    for line in lines:
        if length > FILE_CHARACTERS or time.monotonic() > until:
            is_whole = False
            break
        if line.label and line.label != label:
            found.append(f"\n[{line.label}]\n")
            label = line.label
        found.append(f"{line.text}\n")
        length += len(line.text) + 1
    text = "".join(found).strip()
    if not text:
        raise NoText("No text was found in it.")
    return FileText(text, is_whole)


# Plain text

MARKS = (  # the longer ones first
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
SAMPLE = 8192  # bytes


def decoded(content: bytes, charset: str = "") -> str:
    """The text of these bytes: by their mark, by the stated charset, in Unicode, or in Windows' Latin-1.

    Raises NoText for other content.
    """
    sample = content[:SAMPLE]
    marked = next((name for mark, name in MARKS if sample.startswith(mark)), "")
    for encoding in filter(None, (marked, charset, _utf_16(sample))):
        with suppress(LookupError, UnicodeError):
            return content.decode(encoding)
    if CONTROLS.search(sample):
        raise NoText(NOTHING)
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


def _utf_16(sample: bytes) -> str:
    """UTF-16 without a mark: many zeros in every second byte, and none in the others; "" for other content."""
    even, odd, half = sample[0::2].count(0), sample[1::2].count(0), len(sample) // 2
    if len(sample) < 4 or (even and odd):
        return ""
    if odd > 0.4 * half:
        return "utf-16-le"
    return "utf-16-be" if even > 0.4 * half else ""


# Documents


def _pdf(content: bytes) -> Iterator[Line]:
    library: Any = importlib.import_module("pypdf")
    for number, page in enumerate(library.PdfReader(io.BytesIO(content)).pages, start=1):
        drawn = page.get_contents()
        is_small = drawn is not None and len(drawn.get_data()) <= PAGE_BYTES
        text = page.extract_text().strip() if is_small else ""
        yield Line(text, f"Page {number}" if text else "", number)


def _docx(content: bytes) -> Iterator[Line]:
    archive = _opened(content)
    levels, headings, said, level = _heading_levels(archive), dict[int, str](), list[str](), 0
    for name, element in _elements(archive, "word/document.xml"):
        match name:
            case "t":
                said.append(element.text or "")
            case "tab" | "tc":
                said.append("\t")
            case "br":
                said.append("\n")
            case "pStyle":
                level = levels.get(_attribute(element, "val"), 0)
            case "p" if _local(element.getparent()) == "tc":  # a row is a line
                said.append(" ")
            case "p" | "tr":
                text = "".join(said).strip()
                if level and text:
                    headings = {one: above for one, above in headings.items() if one < level} | {level: text}
                yield Line(text, headings=tuple(headings.values()))
                said, level = [], 0
    yield Line("".join(said).strip(), headings=tuple(headings.values()))


def _heading_levels(archive: Zip) -> dict[str, int]:
    """The levels of headings by the ids of their styles, which are in the language of who wrote the document."""
    path, found, style = "word/styles.xml", dict[str, int](), ""
    for name, element in _elements(archive, path) if path in archive.entries else ():
        if name == "name":
            style = _attribute(element, "val").lower()
        elif name == "style" and (level := re.fullmatch(r"title|heading ([1-6])", style)):
            found[_attribute(element, "styleId")] = int(level[1] or 1)
    return found


def _attribute(element: Any, wanted: str) -> str:
    """An attribute, whatever its namespace; "" if it is not there."""
    return next((value for name, value in element.items() if name.rpartition("}")[2] == wanted), "")


def _pptx(content: bytes) -> Iterator[Line]:
    archive = _opened(content)
    for number, path in sorted(_numbered(archive, r"ppt/slides/slide(\d+)\.xml")):
        said: list[str] = []
        for name, element in _elements(archive, path):
            if name in ("t", "p", "br"):
                said.append((element.text or "") if name == "t" else "\n")
        yield Line("".join(said).strip(), f"Slide {number}")


def _xlsx(content: bytes) -> Iterator[Line]:
    archive = _opened(content)
    shared = _shared_texts(archive)
    names = [one.get("name", "") for name, one in _elements(archive, "xl/workbook.xml") if name == "sheet"]
    for number, path in sorted(_numbered(archive, r"xl/worksheets/sheet(\d+)\.xml")):
        label = f"Sheet {names[number - 1] if number <= len(names) else number}"
        for name, row in _elements(archive, path):
            if name == "row":
                cells = tuple(_cell(cell, shared) for cell in row)
                yield Line("\t".join(cells), label, cells=cells)
                row.clear()


def _opened(content: bytes) -> Zip:
    return Zip(content, DOCUMENT_PARTS)


def _cell(cell: Any, shared: list[str]) -> str:
    text = "".join(one.text or "" for one in cell.iter() if _local(one) in ("v", "t"))
    return shared[int(text)] if cell.get("t") == "s" and text else text


def _shared_texts(archive: Zip) -> list[str]:
    path = "xl/sharedStrings.xml"
    if path not in archive.entries:
        return []
    said = (element for name, element in _elements(archive, path) if name == "si")
    return ["".join(one.text or "" for one in element.iter() if _local(one) == "t") for element in said]


def _numbered(archive: Zip, pattern: str) -> Iterator[tuple[int, str]]:
    for name in archive.entries:
        if found := re.fullmatch(pattern, name):
            yield int(found[1]), name


def _elements(archive: Zip, path: str) -> Iterator[tuple[str, Any]]:
    """The elements of a part as they end, by their local names. Entities and networks are left alone."""
    if archive.entries[path].size > UNPACKED_BYTES:
        raise NoText(TOO_LARGE)
    library: Any = importlib.import_module("lxml.etree")
    part = io.BytesIO(archive.read(path, UNPACKED_BYTES))
    for _, element in library.iterparse(part, events=("end",), resolve_entities=False, no_network=True):
        yield _local(element), element


def _local(element: Any) -> str:
    """An element's name without its namespace; "" for comments and the like."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


DOCUMENTS: dict[str, Callable[[bytes], Iterator[Line]]] = {PDF: _pdf, DOCX: _docx, XLSX: _xlsx, PPTX: _pptx}

# Models that see

SEEING = re.compile(
    r"gpt-4o|gpt-4\.1|gpt-4-turbo|gpt-[5-9]|chatgpt-4o|\bo[134](-pro|-20.*)?$|o4-mini|claude|gemini|gemma-?[3-9]|llava|vision"
    r"|(^|[-_./\d])vl(m?\b|[-_:])|pixtral|mistral-(medium|small)|magistral|llama-?4|minicpm-v|moondream|multimodal|internvl"
    r"|grok-[4-9]|qwen-?3\.5|kimi-k2\.5|glm-[\d.]+v|nova-(lite|pro|premier)|omni"
)
BLIND = re.compile(
    r"gpt-3|gpt-oss|^gpt-4(-0613|-32k)?$|o1-mini|o1-preview|o3-mini|deepseek|codestral|mi[sx]tral-\d|mistral-(nemo|tiny)|llama-?[23]\b"
    r"|llama-?3[.:]|codellama|qwen-?[12]|qwen-?3|qwq|phi-?[234]\b|command-r|kimi-k2|glm-[\d.]+|granite|starcoder|falcon"
    r"|embed|whisper|tts"
)
READS_PDF = re.compile(r"gpt-4o|gpt-4\.1|gpt-[5-9]|\bo[134](-pro|-20.*)?$|o4-mini")


@dataclass(frozen=True)
class Sight:
    """What a model is given as files instead of in words."""

    images: bool = True
    pdf: bool = False

    def sees(self, media_type: str) -> bool:
        return (self.images and media_type in IMAGES) or (self.pdf and media_type == PDF)


USUAL = Sight()
IN_WORDS = Sight(images=False)


def sight_of(model: str, *, is_openai: bool = False) -> Sight:
    """A guess by the model's name. A name that says nothing may see: if its endpoint refuses, it is told in words.

    `is_openai`: OpenAI's own endpoint, the only one of its API that is known to take PDFs.
    """
    name = model.lower()
    sees = bool(SEEING.search(name)) or not BLIND.search(name)
    return Sight(sees, is_openai and bool(READS_PDF.search(name)))
