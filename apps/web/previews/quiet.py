"""A PDF to be looked at: what it would do by itself, or when it is pressed, is taken out; links and pages stay.

A browser's viewer runs a document's scripts, and no policy of a response keeps it from that.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator

import pikepdf

MOST_BYTES = 25_000_000
SECONDS = 5.0

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


class CannotBeShown(Exception):
    """This PDF cannot be shown here. Download it to read it."""


def quieted(content: bytes) -> bytes:
    """The same document, which does nothing.

    Raises:
        CannotBeShown: it is broken, needs a password, or is too large.
    """
    if len(content) > MOST_BYTES:
        raise CannotBeShown
    until = time.monotonic() + SECONDS
    try:
        with pikepdf.open(io.BytesIO(content)) as document:
            for found in document.objects:
                _quiet(found, until)
            _quiet(document.trailer, until)
            written = io.BytesIO()
            document.save(written, stream_decode_level=pikepdf.StreamDecodeLevel.none)
    except (pikepdf.PdfError, pikepdf.PasswordError, pikepdf.DataDecodingError, ValueError, RuntimeError) as problem:
        raise CannotBeShown from problem
    return written.getvalue()


def _quiet(found: pikepdf.Object, until: float) -> None:
    """Quiet an object with all that stands in it; what it refers to has its own turn."""
    waiting = [found]
    while waiting:
        if time.monotonic() > until:
            raise CannotBeShown
        one = waiting.pop()
        if isinstance(one, (pikepdf.Dictionary, pikepdf.Stream)):
            _silence(one)
        waiting.extend(inner for inner in _within(one) if not inner.is_indirect)


def _silence(one: pikepdf.Dictionary | pikepdf.Stream) -> None:
    for key in RUNS:
        if key in one:
            del one[key]
    if str(one.get("/S", "")) in ACTIONS:
        del one["/S"]


def _within(one: pikepdf.Object) -> Iterator[pikepdf.Object]:
    if isinstance(one, pikepdf.Array):
        inner = iter(one)
    elif isinstance(one, (pikepdf.Dictionary, pikepdf.Stream)):
        inner = (one[key] for key in one.keys())  # noqa: SIM118  # iterating a stream is not iterating its keys
    else:
        return
    yield from (value for value in inner if isinstance(value, pikepdf.Object))
