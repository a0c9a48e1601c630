"""One reader of ZIP files decides: what it does not refuse is what is read, and refusing costs little."""

from __future__ import annotations

import io
import struct
import time
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agentkit.content import zips
from agentkit.content.zips import CENTRAL, END, LOCAL, SMALL, BadZip
from apps.optional.transfers.package import opened
from apps.record.errors import InvalidParams

SECONDS_FOR_A_MEGABYTE = 0.3  # CPU time


def opened_zip(content: bytes) -> zips.Zip:
    return zips.Zip(content, 1_000)


def written(*files: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED, comment: bytes = b"") -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        archive.comment = comment
        for name, content in files:
            archive.writestr(name, content)
    return made.getvalue()


@given(
    some.dictionaries(some.sampled_from(["a", "é", "b/c", "d.json"]), some.binary(max_size=99)),
    some.sampled_from([zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED]),
    some.binary(max_size=9),
)
def test_what_programs_write_is_read(files, method, comment):
    archive = opened_zip(written(*files.items(), method=method, comment=comment))
    assert {name: archive.read(name, 99) for name in archive.entries} == files


def with_zip64(content: bytes, count: int | None = None) -> bytes:
    """The same with ZIP64's end before the other one; a count that differs from it makes two directories."""
    body, end = content[: -END.size], END.unpack(content[-END.size :])
    number = end[4] if count is None else count
    stated = end[4] if count is not None else 0xFFFF
    far = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, number, number, end[5], end[6])
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(body), 1)
    return body + far + locator + END.pack(b"PK\5\6", 0, 0, stated, stated, end[5], end[6], 0)


def test_two_directories_that_differ_are_refused():
    many = written(*((f"f{number}", b"") for number in range(400)))
    with pytest.raises(BadZip, match="contradict each other"):
        opened_zip(with_zip64(many[: -END.size] + END.pack(b"PK\5\6", 0, 0, 1, 1, *END.unpack(many[-22:])[5:]), 400))


def changed(content: bytes, change: Callable[[list[int]], None], entry: int = 0) -> bytes:
    """With other fields in an entry of the directory."""
    at = -1
    for _ in range(entry + 1):
        at = content.index(b"PK\1\2", at + 1)
    fields = list(CENTRAL.unpack_from(content, at))
    change(fields)
    return content[:at] + CENTRAL.pack(*fields) + content[at + CENTRAL.size :]


FLAGS, METHOD, PACKED, SIZE, PLACE = 3, 4, 8, 9, 16


def set_field(number: int, value: int) -> Callable[[list[int]], None]:
    return lambda fields: fields.__setitem__(number, value)


PAIR = written(("a", b"first" * 99), ("b", b"other" * 99))
HARMFUL = {
    "encrypted": (changed(PAIR, set_field(FLAGS, 1)), "is encrypted"),
    "unusual": (written(("a", b"x" * 99), method=zipfile.ZIP_LZMA), "unusual way"),
    "overlapping": (changed(PAIR, set_field(PLACE, 0), entry=1), "overlap"),
    "beyond": (changed(PAIR, set_field(PLACE, 10_000)), "overlap"),
    "upwards": (written(("a/../../b", b"")), "leads out"),
    "upwards on Windows": (written(("a", b"")).replace(b"a", b"\\"), "leads out"),
    "absolute": (written(("/etc/passwd", b"")), "leads out"),
    "a drive": (written(("C:/x", b"")), "leads out"),
    "no text": (written(("abc", b"")).replace(b"abc", b"a\0c"), "leads out"),
    "twice": (written(("a", b"1"), ("b", b"2")).replace(b"b", b"a"), "two files with the name `a`"),
    "cut": (PAIR[:-1], "damaged"),
    "counts too few": (PAIR[: -END.size] + END.pack(*(b"PK\5\6", 0, 0, 1, 1), *END.unpack(PAIR[-22:])[5:]), "damaged"),
    "empty": (b"", "damaged"),
}


@pytest.mark.parametrize(("content", "sentence"), HARMFUL.values(), ids=HARMFUL)
def test_a_harmful_zip_is_refused_with_a_sentence(content, sentence):
    with pytest.raises(BadZip, match=sentence):
        opened_zip(content)


UNTRUE = {
    "unpacks to more": changed(PAIR, set_field(SIZE, 7)),
    "unpacks to less": changed(PAIR, set_field(SIZE, 10_000)),
    "another file's header": PAIR.replace(b"a", b"c", 1),
    "another checksum": changed(PAIR, set_field(7, 1)),
    "no Deflate": PAIR[: LOCAL.size + 1] + b"\xff\xff" + PAIR[LOCAL.size + 3 :],
}


@pytest.mark.parametrize("content", UNTRUE.values(), ids=UNTRUE)
def test_content_that_is_not_as_stated_is_refused(content):
    with pytest.raises(BadZip, match="damaged"):
        opened_zip(content).read("a", 100_000)


def test_what_unpacks_to_far_more_is_refused():
    archive = opened_zip(written(("a", bytes(20 * SMALL)), ("b", bytes(SMALL))))
    with pytest.raises(BadZip, match="more than 200 times"):
        archive.read("a", 100 * SMALL)
    with pytest.raises(BadZip, match="more than 9 bytes"):
        archive.read("b", 9)
    assert archive.read("b", SMALL) == bytes(SMALL)


def many_entries(number: int) -> bytes:
    entry = CENTRAL.pack(b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0)
    local = LOCAL.pack(b"PK\3\4", 20, 0, 0, 0, 0, 0, 0, 0, 6, 0)
    body = b"".join(local + b"%06d" % one for one in range(number))
    size = LOCAL.size + 6
    names = (CENTRAL.pack(*CENTRAL.unpack(entry)[:-1], one * size) + b"%06d" % one for one in range(number))
    directory = b"".join(names)
    least = min(number, 0xFFFF)
    content = body + directory + END.pack(b"PK\5\6", 0, 0, least, least, len(directory), len(body), 0)
    return with_zip64(content, number) if number > least else content


HOSTILE: dict[str, Callable[[], bytes]] = {
    "too many": lambda: many_entries(400_000),
    "another count": lambda: with_zip64(
        many_entries(1)[: -END.size] + END.pack(b"PK\5\6", 0, 0, 1, 1, 52, 36, 0), 400_000
    ),
    "many ends": lambda: b"PK\3\4" + b"PK\5\6" * 250_000,
    "many bombs": lambda: written(*((f"{number}.json", bytes(SMALL)) for number in range(500))),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_zip_costs_little(kind):
    content = HOSTILE[kind]()
    spent = time.process_time()
    try:
        package = opened(content)
        list(package.documents())
    except InvalidParams:
        pass
    megabytes = max(1, len(content) / 1024**2)
    assert time.process_time() - spent < SECONDS_FOR_A_MEGABYTE * megabytes
