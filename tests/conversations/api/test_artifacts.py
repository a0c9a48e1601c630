"""Artifacts by the client API: listed, downloaded and verified by their owner."""

import base64

import pytest

from agentkit import Artifact, Failed
from apps.agents.identities import identity
from apps.agents.identities.signing import revoke_key
from apps.agents.models import SigningKey
from apps.record.models import Artifact as Row
from apps.record.models import Context
from parley import db
from tests.working import begin, chunk, end, say

pytestmark = pytest.mark.django_db(transaction=True)

CONTENT = bytes(range(256)) * 2000
FILE = {"raw": base64.b64encode(CONTENT).decode(), "filename": "big.bin", "mediaType": "application/x-big"}
PAGE = {"text": "<script>alert(1)</script>", "filename": "page.html", "mediaType": "text/html"}


def again(context):
    return {"contextId": context.context_id}


async def session_of(receipt):
    return await Context.objects.aget(pk=receipt.context)


async def test_versions_are_counted_by_name_and_session(ada_calls, made):
    first = await made.delivered()
    session = await session_of(first)
    other = Artifact([{"text": "other"}], name="other", artifact_id="two")
    second = await made.delivered(other, **again(session))
    third = await made.delivered(**again(session))
    await made.delivered()
    found = (await ada_calls.get(f"/artifacts?session={session.pk}")).body["items"]
    assert [(one["taskId"], one["name"], one["version"]) for one in found] == [
        (str(first.task), "words", 1),
        (str(second.task), "other", 1),
        (str(third.task), "words", 2),
    ]
    named = (await ada_calls.get(f"/artifacts?session={session.pk}&name=words&limit=1")).body
    rest = await ada_calls.get(f"/artifacts?session={session.pk}&name=words&limit=1&cursor={named['nextCursor']}")
    assert [one["version"] for one in named["items"] + rest.body["items"]] == [1, 2]
    newest = (await ada_calls.get(f"/artifacts/{third.task}/one")).body
    assert newest == found[2]
    assert (newest["id"], newest["mediaType"], newest["size"]) == (f"{third.task}/one", "text/plain", 5)


async def test_unfinished_artifacts_are_listed_on_request(ada_calls, bob_calls, made):
    receipt = await made.sent()
    held = await db.run(begin, receipt.run)
    await db.run(say, held, chunk("one", "hello "))
    await db.run(say, held, chunk("one", "world", append=True))
    await db.run(end, held, Failed("No."))
    await made.delivered(**again(await session_of(receipt)))
    listed = f"/artifacts?session={receipt.context}"
    assert [one["unfinished"] for one in (await ada_calls.get(listed)).body["items"]] == [False]
    found = (await ada_calls.get(f"{listed}&unfinished=true")).body["items"]
    assert [(one["unfinished"], one["version"]) for one in found] == [(True, 0), (False, 1)]
    assert (found[0]["parts"], found[0]["digest"]) == ([{"text": "hello world"}], "")
    alone = f"/artifacts/{receipt.task}/one"
    assert (await ada_calls.get(alone)).body == found[0]
    assert (await ada_calls.get(f"{alone}/content")).content == b"hello world"
    assert (await ada_calls.get(f"{alone}/verify")).status == 404
    for path in (alone, f"{alone}/content"):
        assert (await bob_calls.get(path)).status == 404


async def test_a_file_is_downloaded_as_it_was_made(ada_calls, made):
    parts = [Artifact([FILE, PAGE, {"text": "hello"}], name="mixed", artifact_id="a/b c")]
    done = await made.delivered(*parts)
    large = await ada_calls.get(f"/artifacts/{done.task}/a/b c/content")
    assert (large.status, large.content) == (200, CONTENT)
    assert large.headers["content-type"] == "application/x-big"
    assert large.headers["content-disposition"] == 'attachment; filename="big.bin"'
    page = await ada_calls.get(f"/artifacts/{done.task}/a/b c/content?part=1&inline=true")
    assert page.content == b"<script>alert(1)</script>"
    assert page.headers["content-disposition"].startswith("attachment"), "what could run is not to be looked at"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["content-security-policy"] == "default-src 'none'; sandbox; frame-ancestors 'none'"
    for part in (3, 10_000):
        answer = await ada_calls.get(f"/artifacts/{done.task}/a/b c/content?part={part}")
        assert (answer.status, answer.code) == (404, "not_found")
    assert (await ada_calls.get(f"/artifacts/{done.task}/a/b c/content?part=-1")).fields == ["part"]


async def test_signature_is_verified_and_forgery_found(ada_calls, made):
    done = await made.delivered()
    told = (await ada_calls.get(f"/artifacts/{done.task}/one/verify")).body
    assert (told["result"], told["verdict"], told["key"], told["signedAt"]) == ("unsigned", "missing", None, None)
    await db.run(_let_sign, made.agent)
    done = await made.delivered()
    address = f"/artifacts/{done.task}/one"
    good = (await ada_calls.get(f"{address}/verify")).body
    assert (good["result"], good["verdict"]) == ("valid", "good")
    assert good["agent"] == good["key"]["agent"] == await db.run(identity.did_of, made.agent)
    assert good["digest"] == (await ada_calls.get(address)).body["digest"]
    await db.run(lambda: Row.objects.update(parts=[{"text": "forged"}]))
    forged = (await ada_calls.get(f"{address}/verify")).body
    assert (forged["result"], forged["verdict"]) == ("invalid", "broken")
    await db.run(lambda: Row.objects.update(parts=[{"text": "hello"}]))
    await db.run(lambda: revoke_key(SigningKey.objects.get(kid=good["key"]["id"])))
    revoked = (await ada_calls.get(f"{address}/verify")).body
    assert (revoked["result"], revoked["verdict"], revoked["key"]["isRevoked"]) == ("invalid", "revoked", True)


def _let_sign(echo):
    echo.sign_artifacts = True
    echo.save()
