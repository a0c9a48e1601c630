"""From the bytes of a file to its text, whatever program wrote them."""

import codecs

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark begins this one
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

SIGNATURES = (
    (b"%PDF", "a PDF"),
    (b"PK\x03\x04", "an Excel workbook or another ZIP archive"),
    (b"\xd0\xcf\x11\xe0", "an old Excel or Word document"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"\x1f\x8b", "a compressed file"),
)

LAYOUT = {"\t", "\n", "\r", "\f", "\v", "\x1a", "\x1c", "\x1d", "\x1e", "\x1f"}


class NotATable(Exception):
    """The file cannot be reported on; the text says what is wrong with it, as a sentence."""


def decoded(content: bytes) -> str:
    """The text of a file.

    Raises:
        NotATable: it is empty, or something other than text.
    """
    if not content.strip():
        raise NotATable("It is empty.")
    for signature, kind in SIGNATURES:
        if content.startswith(signature):
            raise NotATable(f"It is {kind}, not a CSV file.")
    try:
        text = content.decode(_encoding(content))
    except UnicodeDecodeError as error:
        raise NotATable("Its characters cannot be read: it is damaged, or not text at all.") from error
    if _binary(text):
        raise NotATable("It holds binary data, not text.")
    if not text.strip():
        raise NotATable("It is empty.")
    return text


def _encoding(content: bytes) -> str:
    for mark, encoding in BYTE_ORDER_MARKS:
        if content.startswith(mark):
            return encoding
    if unmarked := _unmarked_utf16(content):
        return unmarked
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return _western(content)
    return "utf-8"


def _unmarked_utf16(content: bytes) -> str | None:
    """Text of mostly Latin letters in UTF-16 has a zero in every other byte."""
    sample = content[:4096]
    if len(sample) < 2 or len(content) % 2:
        return None
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    most = len(sample) // 2 * 0.7
    if odd > most and even == 0:
        return "utf-16-le"
    return "utf-16-be" if even > most and odd == 0 else None


def _western(content: bytes) -> str:
    """What Windows calls ANSI, unless it has bytes that are unused there."""
    try:
        content.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"


def _binary(text: str) -> bool:
    sample = text[:100_000]
    strange = sum(
        1 for character in sample if (character < " " or "\x7f" <= character < "\xa0") and character not in LAYOUT
    )
    return "\x00" in text or strange > len(sample) * 0.02
