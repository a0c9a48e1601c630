"""Text out of bytes, in the encoding that they say, show or most likely have."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, with whose mark it begins
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Some of Python's codecs are no encodings of text, and some take a time that grows with the square of the length.
KNOWN = re.compile(
    r"(us-)?ascii|utf-?(8|16|32)(le|be|-le|-be)?|(iso-?)?8859-\d+|iso-8859-\d+|latin-?1|(windows-|cp)125\d"
    r"|koi8-[ru]|mac-?roman|gbk|gb2312|gb18030|big5|shift_?jis|euc-(jp|kr)",
    re.IGNORECASE,
)
CHARSET = re.compile(r";\s*charset\s*=\s*\"?([\w.-]{1,40})", re.IGNORECASE | re.ASCII)


def text_of(content: bytes, media_type: str = "", *, is_cut: bool = False) -> str:
    """The text; it never fails. `is_cut`: there is more, and the last character may be half."""
    return _decoded(content, encoding_of(content, media_type, is_cut=is_cut), is_cut)


def encoding_of(content: bytes, media_type: str = "", *, is_cut: bool = False) -> str:
    """The name of the encoding: what its mark or its media type says, if that holds; otherwise UTF-8, or a guess."""
    for encoding in _likely(content, media_type):
        try:
            _decoded(content, encoding, is_cut)
        except (UnicodeError, LookupError):
            continue
        return encoding
    return "iso-8859-1"  # in which every byte is a character


def _likely(content: bytes, media_type: str) -> Iterator[str]:
    yield from (encoding for mark, encoding in MARKS.items() if content.startswith(mark))
    said = CHARSET.search(media_type)
    if said and KNOWN.fullmatch(said[1]):
        yield said[1]
    yield from ("utf-8", "windows-1252")


def _decoded(content: bytes, encoding: str, is_cut: bool) -> str:
    text = codecs.getincrementaldecoder(encoding)().decode(content, final=not is_cut)
    return text.removeprefix("\ufeff")
