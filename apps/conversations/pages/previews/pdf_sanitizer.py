"""The program that `pdf.py` starts: it reads a PDF and writes it without scripts and actions.

The document may be hostile, so this process has limited memory and time, and no settings or secrets.
"""

from __future__ import annotations

import io
import resource
import sys
from collections.abc import Iterator

import pikepdf

MEMORY = 1 << 30  # bytes
DECODED = 64 << 20  # bytes of a structural stream
FILTERS = 3  # of such a stream

SCRIPT_KEYS = ("/OpenAction", "/AA", "/JavaScript", "/JS", "/XFA")
"""Keys of dictionaries: actions at events, scripts by name and in actions, forms that are programs."""
ACTIONS = frozenset(
    f"/{name}"
    for name in (
        "GoTo3DView", "GoToE", "GoToR", "Hide", "ImportData", "JavaScript", "Launch", "Movie", "Rendition", "ResetForm",
        "RichMediaExecute", "SetOCGState", "Sound", "SubmitForm", "Thread", "Trans",
    )
)  # fmt: skip
"""The action types (ISO 32000-2, table 201), without those that go to a page or follow a link."""
PAGE_ACTIONS = frozenset(("/NextPage", "/PrevPage", "/FirstPage", "/LastPage"))


class AmbiguousName(Exception):
    """A name contains a NUL, which readers treat differently."""


def sanitized(content: bytes) -> bytes:
    """The document without scripts and actions. Raises pikepdf's errors, and AmbiguousName."""
    pikepdf.settings.set_qpdf_limits(
        flate_max_memory=DECODED, run_length_max_memory=DECODED, png_max_memory=DECODED, tiff_max_memory=DECODED,
        max_stream_filters=FILTERS,
    )  # fmt: skip
    with pikepdf.open(io.BytesIO(content)) as document:
        for found in (*document.objects, document.trailer):
            sanitize_object(found)
        written = io.BytesIO()
        document.save(written, fix_metadata_version=False, stream_decode_level=pikepdf.StreamDecodeLevel.none)
    return written.getvalue()


def sanitize_object(found: pikepdf.Object) -> None:
    """Remove actions from an object and its direct members. The caller visits indirect objects."""
    waiting = [found]
    while waiting:
        one = waiting.pop()
        if isinstance(one, (pikepdf.Dictionary, pikepdf.Stream)):
            remove_actions(one)
        waiting.extend(inner for inner in inner_objects(one) if not inner.is_indirect)


def remove_actions(one: pikepdf.Dictionary | pikepdf.Stream) -> None:
    if any("\0" in key for key in one.keys()):  # noqa: SIM118  # iterating a stream is not iterating its keys
        raise AmbiguousName
    for key in SCRIPT_KEYS:
        if key in one:
            del one[key]
    does = str(one.get("/S", ""))
    if does in ACTIONS or "\0" in does or (does == "/Named" and str(one.get("/N", "")) not in PAGE_ACTIONS):
        del one["/S"]


def inner_objects(one: pikepdf.Object) -> Iterator[pikepdf.Object]:
    if isinstance(one, pikepdf.Array):
        inner = iter(one)
    elif isinstance(one, (pikepdf.Dictionary, pikepdf.Stream)):
        inner = (one[key] for key in one.keys())  # noqa: SIM118
    else:
        return
    yield from (value for value in inner if isinstance(value, pikepdf.Object))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.stdout.buffer.write(sanitized(sys.stdin.buffer.read()))
