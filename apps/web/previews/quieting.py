"""The program that `quiet.py` starts: a PDF comes in, the same document comes out, and does nothing any more.

It is a process of its own, because whoever made the document may mean it badly: it has only so much memory and time,
knows no settings and no secrets, and takes nobody along when it ends.
"""

from __future__ import annotations

import io
import resource
import sys
from collections.abc import Iterator

import pikepdf

MEMORY = 1 << 30  # bytes
DECODED = 64 << 20  # bytes that a stream of the document's structure may have
FILTERS = 3  # one after the other, of such a stream

RUNS = ("/OpenAction", "/AA", "/JavaScript", "/JS", "/XFA")
"""Keys of dictionaries: actions at events, scripts by name and in actions, forms that are programs."""
ACTIONS = frozenset(
    f"/{name}"
    for name in (
        "GoTo3DView", "GoToE", "GoToR", "Hide", "ImportData", "JavaScript", "Launch", "Movie", "Rendition", "ResetForm",
        "RichMediaExecute", "SetOCGState", "Sound", "SubmitForm", "Thread", "Trans",
    )
)  # fmt: skip
"""What is done when something is pressed (ISO 32000-2, table 201), but going to a page and following a link."""
PAGES = frozenset(("/NextPage", "/PrevPage", "/FirstPage", "/LastPage"))


class Unclear(Exception):
    """A name is written so that readers differ in what it says."""


def quieted(content: bytes) -> bytes:
    """Raises pikepdf's errors, and Unclear."""
    pikepdf.settings.set_qpdf_limits(
        flate_max_memory=DECODED, run_length_max_memory=DECODED, png_max_memory=DECODED, tiff_max_memory=DECODED,
        max_stream_filters=FILTERS,
    )  # fmt: skip
    with pikepdf.open(io.BytesIO(content)) as document:
        for found in (*document.objects, document.trailer):
            quiet(found)
        written = io.BytesIO()
        document.save(written, fix_metadata_version=False, stream_decode_level=pikepdf.StreamDecodeLevel.none)
    return written.getvalue()


def quiet(found: pikepdf.Object) -> None:
    """Quiet an object with all that stands in it; what it refers to has its own turn."""
    waiting = [found]
    while waiting:
        one = waiting.pop()
        if isinstance(one, (pikepdf.Dictionary, pikepdf.Stream)):
            silence(one)
        waiting.extend(inner for inner in within(one) if not inner.is_indirect)


def silence(one: pikepdf.Dictionary | pikepdf.Stream) -> None:
    if any("\0" in key for key in one.keys()):  # noqa: SIM118  # iterating a stream is not iterating its keys
        raise Unclear
    for key in RUNS:
        if key in one:
            del one[key]
    does = str(one.get("/S", ""))
    if does in ACTIONS or "\0" in does or (does == "/Named" and str(one.get("/N", "")) not in PAGES):
        del one["/S"]


def within(one: pikepdf.Object) -> Iterator[pikepdf.Object]:
    if isinstance(one, pikepdf.Array):
        inner = iter(one)
    elif isinstance(one, (pikepdf.Dictionary, pikepdf.Stream)):
        inner = (one[key] for key in one.keys())  # noqa: SIM118
    else:
        return
    yield from (value for value in inner if isinstance(value, pikepdf.Object))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.stdout.buffer.write(quieted(sys.stdin.buffer.read()))
