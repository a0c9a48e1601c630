"""All files of a session in one ZIP, under safe names."""

from __future__ import annotations

import io
import zipfile
from collections.abc import AsyncIterator
from typing import cast

import pytest
from django.http import StreamingHttpResponse
from django.test import AsyncClient

import db
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine.accept import Receipt
from apps.features.sharing import downloads
from apps.record.content import blobs
from apps.record.models import Context
from tests.web import telling

pytestmark = pytest.mark.django_db(transaction=True)


async def unzipped(answer: StreamingHttpResponse) -> dict[str, bytes]:
    pieces = cast(AsyncIterator[bytes], answer.streaming_content)
    archive = zipfile.ZipFile(io.BytesIO(b"".join([piece async for piece in pieces])))
    assert archive.testzip() is None
    return {name: archive.read(name) for name in archive.namelist()}


def delivered(user: User, agent: Agent, *turns: dict[str, telling.JSON]) -> Receipt:
    """A session with one task for each turn; each delivers one-part artifacts by name."""
    first: Receipt | None = None
    for artifacts in turns:
        context = {"contextId": Context.objects.get(pk=first.context).context_id} if first else {}
        receipt = telling.finished(user, agent, artifacts, **context)
        first = first or receipt
    assert first is not None
    return first


async def test_the_newest_of_each_name_is_in_it_and_all_versions_if_asked(
    ada_at_work: AsyncClient, ada: User, echo: Agent, bob: User
) -> None:
    turns = {"a.txt": telling.text("one"), "b": telling.text("# B", "text/markdown")}, {"a.txt": telling.text("two")}
    receipt = await db.run(delivered, ada, echo, *turns)
    answer = await ada_at_work.get(f"/sessions/{receipt.context}/artifacts.zip")
    assert answer["Content-Type"] == "application/zip"
    assert answer["Content-Disposition"] == 'attachment; filename="Begin.zip"'
    assert await unzipped(answer) == {"b.md": b"# B", "a.txt": b"two"}
    every = await ada_at_work.get(f"/sessions/{receipt.context}/artifacts.zip?all")
    assert await unzipped(every) == {"a v1.txt": b"one", "b.md": b"# B", "a v2.txt": b"two"}
    of_bob = await db.run(delivered, bob, echo, {"a.txt": telling.text("one")})
    assert (await ada_at_work.get(f"/sessions/{of_bob.context}/artifacts.zip")).status_code == 404
    empty = await db.run(telling.finished, ada, echo)
    assert (await ada_at_work.get(f"/sessions/{empty.context}/artifacts.zip")).status_code == 404
    assert (await AsyncClient().get(f"/sessions/{of_bob.context}/artifacts.zip")).status_code == 302


async def test_only_what_was_delivered_is_in_it(ada_at_work: AsyncClient, ada: User, echo: Agent) -> None:
    def half_done() -> Receipt:
        receipt = delivered(ada, echo, {"a.txt": telling.text("one")})
        context = Context.objects.get(pk=receipt.context)
        second = telling.begun(ada, echo, contextId=context.context_id)
        with telling.ledger.writing(receipt.context) as log:
            telling.work(log, second)
            telling.chunk(log, second, "half.txt", telling.text("not yet"), last=False)
        return receipt

    receipt = await db.run(half_done)
    answer = await ada_at_work.get(f"/sessions/{receipt.context}/artifacts.zip")
    assert list(await unzipped(answer)) == ["a.txt"]


async def test_a_large_file_is_sent_in_pieces_and_a_link_is_named(
    ada_at_work: AsyncClient, ada: User, echo: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(range(256)) * 16_000
    [large] = await db.run(blobs.store_large, [telling.raw(content, "application/x-data", filename="../../x.bin")])
    link = {"url": "https://there.example/y", "filename": "y.txt"}
    receipt = await db.run(delivered, ada, echo, {"x": large, "y": link})
    small = blobs.content_of
    monkeypatch.setattr(
        blobs, "content_of", lambda part: pytest.fail("read whole") if "stored" in part else small(part)
    )
    answer = await ada_at_work.get(f"/sessions/{receipt.context}/artifacts.zip")
    assert await unzipped(answer) == {"x.bin": content, "links.txt": b"y.txt\thttps://there.example/y\n"}


def test_names_are_safe_everywhere_and_no_two_are_alike_on_any_system() -> None:
    for wanted, given in [
        ("../../etc/passwd", "passwd"),
        ("C:\\Windows\\x.exe", "x.exe"),
        ("a:b?.txt", "a_b_.txt"),
        ("CON.txt", "_CON.txt"),
        ("nul", "_nul"),
        ("..", "file"),
        ("", "file"),
        ("dots...", "dots"),
        ("gpj\u202etxt.exe", "gpjtxt.exe"),
        ("x" * 500 + ".csv", "x" * 196 + ".csv"),
    ]:
        assert downloads.UniqueNames().unique(wanted) == given, wanted
    names = downloads.UniqueNames()
    alike = ["a.txt", "A.TXT", "a.txt", "a (2).txt"]
    given = [names.unique(one) for one in alike]
    assert given == ["a.txt", "A (2).TXT", "a (3).txt", "a (2) (2).txt"]
