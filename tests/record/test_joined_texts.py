"""Texts of a remote agent's stream become one part where they are of one kind."""

from apps.record.events import EventType
from apps.record.models import Event
from apps.record.projection import assemble_parts


def chunk(*parts, joined=True) -> Event:
    payload = {"artifact": {"artifactId": "a", "parts": list(parts)}, "append": joined, "lastChunk": False}
    return Event(type=EventType.ARTIFACT_UPDATE, payload=payload | ({"joined": True} if joined else {}))


def test_only_the_first_text_of_a_joined_chunk_goes_on_with_the_one_before():
    plain, code, data = {"text": "a"}, {"text": "b", "mediaType": "text/x-python"}, {"data": 1}
    for chunks, parts in (
        ([chunk(plain), chunk(plain), chunk(plain)], [{"text": "aaa"}]),
        ([chunk(plain), chunk(plain, joined=False)], [plain, plain]),
        ([chunk(plain), chunk(plain, plain)], [{"text": "aa"}, plain]),
        ([chunk(plain), chunk(code), chunk(code), chunk(plain)], [plain, code | {"text": "bb"}, plain]),
        ([chunk(data), chunk(data), chunk(plain)], [data, data, plain]),
    ):
        assert assemble_parts(chunks) == parts
