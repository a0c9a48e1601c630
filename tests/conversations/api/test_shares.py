"""A share link shows one session to anybody until it expires or is revoked."""

import datetime
import uuid

import pytest
from asgiref.sync import sync_to_async
from django.test import Client
from django.utils import timezone

from agentkit import Artifact, Completed
from apps.accounts.requests import quotas
from apps.conversations.forks.forking import fork
from apps.conversations.public_links.models import Share
from apps.conversations.sessions import deletion
from apps.engine import accept
from apps.record.models import Context
from parley import db
from tests.nonces import without_nonces
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)
SECRETS = ("ada@example.org", "agentRunId", "contextId", "traceparent")


@pytest.fixture(autouse=True)
def _nobody_has_looked():
    quotas.view_counter = quotas.RequestCounter(f"views-{uuid.uuid4().hex}")  # counts of its own, also in Redis


@pytest.fixture
def talk(ada, echo, said):
    """Ada's question with a file, and the answer."""
    asked = said("What is it?", contextId="ada@example.org's own")
    asked["parts"].append({"raw": "aGVsbG8=", "filename": "hello.txt", "mediaType": "text/html"})
    sent = accept.accept(ada.principal, echo, asked)
    end(
        begin(sent.run), Completed("It is **this**. <script>alert(1)</script>", [Artifact.text("answer", "the answer")])
    )
    return Context.objects.get(pk=sent.context)


async def shared(caller, talk, **asked):
    answer = await caller.post(f"/sessions/{talk.pk}/shares", asked)
    assert answer.status == 201, answer.content
    return answer.body


def api_path(share):
    return share["apiUrl"].partition("/api/v1")[2]


def page_path(share):
    return "/shared/" + share["url"].rpartition("/")[2]


def opened(path):
    return Client().get(path)


async def test_share_shows_messages_and_nothing_of_its_owner(ada_calls, anybody, talk):
    share = await shared(ada_calls, talk)
    answer = await anybody.get(api_path(share))
    assert answer.status == 200
    read = answer.body
    assert (read["title"], read["sharedBy"]) == (talk.title, "Ada")
    [branch] = read["branches"]
    assert [(said["author"], said["role"], said["content"]) for said in branch["messages"]] == [
        ("Ada", "user", "What is it?"),
        ("Echo", "agent", "It is **this**. <script>alert(1)</script>"),
    ]
    assert "<strong>this</strong>" in branch["messages"][1]["html"]
    assert "<script>" not in branch["messages"][1]["html"]
    assert branch["artifacts"] == []
    assert branch["messages"][0]["parts"][1] == {"filename": "hello.txt", "mediaType": "text/html"}
    assert not any(secret in answer.content.decode() for secret in SECRETS)
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-robots-tag"] == "noindex, nofollow"
    assert answer.headers["referrer-policy"] == "no-referrer"


async def test_share_has_files_only_if_granted(ada_calls, anybody, talk):
    bare, full = await shared(ada_calls, talk), await shared(ada_calls, talk, withArtifacts=True)
    [branch] = (await anybody.get(api_path(full))).body["branches"]
    assert [(made["name"], made["parts"][0]["text"]) for made in branch["artifacts"]] == [("answer", "the answer")]
    address = branch["messages"][0]["parts"][1]["url"]
    path = address.partition("/api/v1")[2]
    file = await anybody.get(path)
    assert (file.status, file.content) == (200, b"hello")
    assert file.headers["content-disposition"].startswith("attachment")
    assert file.headers["cache-control"] == "no-store"
    assert "sandbox" in file.headers["content-security-policy"]
    tokens = api_path(full).rpartition("/")[2], api_path(bare).rpartition("/")[2]
    assert (await anybody.get(path.replace(*tokens))).status == 404
    for wrong in ("/messages/1/7", "/events/1/0", "/artifacts/1/0"):
        assert (await anybody.get(path.replace("/messages/1/1", wrong))).status == 404


async def test_inline_files_are_files_in_shares(ada, echo, said, ada_calls, anybody):
    asked = said("Look")
    asked["parts"] += [
        {"text": "my secret", "filename": "notes.txt"},
        {"url": "https://files.example.org/?key=secret", "filename": "far.txt"},
        {"data": {"guests": 2}},
    ]
    sent = await db.run(accept.accept, ada.principal, echo, asked)
    talk = await Context.objects.aget(pk=sent.context)
    bare, full = await shared(ada_calls, talk), await shared(ada_calls, talk, withArtifacts=True)
    read = await anybody.get(api_path(bare))
    assert "secret" not in read.content.decode()
    shown = read.body["branches"][0]["messages"][0]["parts"][1:]
    assert shown == [{"filename": "notes.txt"}, {"filename": "far.txt"}, {"data": {"guests": 2}}]
    assert "secret" not in (await sync_to_async(opened)(page_path(bare))).content.decode()
    parts = (await anybody.get(api_path(full))).body["branches"][0]["messages"][0]["parts"]
    assert parts[2]["url"] == "https://files.example.org/?key=secret"
    file = await anybody.get(parts[1]["url"].partition("/api/v1")[2])
    assert file.content == b"my secret"


async def test_nothing_that_comes_later_is_shown(ada, echo, said, ada_calls, anybody, talk):
    now = await shared(ada_calls, talk, withArtifacts=True)
    early = await shared(ada_calls, talk, at=1, withArtifacts=True)
    before = (await anybody.get(api_path(now))).content

    def go_on():
        more = accept.accept(ada.principal, echo, said("And then?", contextId=talk.context_id))
        end(begin(more.run), Completed("Then that.", [Artifact.text("later", "later")]))

    await db.run(go_on)
    assert (await anybody.get(api_path(now))).content == before
    [branch] = (await anybody.get(api_path(early))).body["branches"]
    assert [said["content"] for said in branch["messages"]] == ["What is it?"]
    assert branch["artifacts"] == []
    for at in (0, talk.last_event + 100):
        assert (await ada_calls.post(f"/sessions/{talk.pk}/shares", {"at": at})).status == 422


async def test_share_has_branches_of_its_moment(ada, echo, said, ada_calls, anybody, talk):
    def branch_off(text):
        child = fork(ada.principal, talk, talk.last_event, reason="fork")
        more = accept.accept(ada.principal, echo, said(text, contextId=child.context_id))
        end(begin(more.run), Completed("yes"))
        return child

    child = await db.run(branch_off, "Another way?")
    share, bare = await shared(ada_calls, talk, withBranches=True), await shared(ada_calls, talk)
    await db.run(branch_off, "Too late?")
    first, second = (await anybody.get(api_path(share))).body["branches"]
    assert (first["id"], first["parentId"], second["parentId"]) == (str(talk.pk), None, str(talk.pk))
    assert (second["id"], second["forkedAt"]) == (str(child.pk), talk.last_event)
    assert [said["content"] for said in second["messages"]] == ["Another way?", "yes"]
    assert len((await anybody.get(api_path(bare))).body["branches"]) == 1
    await db.run(deletion.delete_session, ada.principal, child.pk)
    assert [one["id"] for one in (await anybody.get(api_path(share))).body["branches"]] == [str(talk.pk)]


async def test_all_invalid_links_get_the_same_answer(ada, ada_calls, anybody, talk):
    revoked, expired, deleted = [await shared(ada_calls, talk) for _ in range(3)]
    assert (await ada_calls.delete(f"/sessions/{talk.pk}/shares/{revoked['id']}")).status == 204
    yesterday = timezone.now() - datetime.timedelta(days=1)
    await db.run(lambda: Share.objects.filter(pk=expired["id"]).update(expires_at=yesterday))
    answers = [await anybody.get(api_path(share)) for share in (revoked, expired)]
    await db.run(deletion.delete_session, ada.principal, talk.pk)
    answers += [await anybody.get(api_path(deleted)), await anybody.get("/shared/never-given")]
    assert {(answer.status, answer.content) for answer in answers} == {(404, answers[0].content)}
    assert answers[0].headers["x-robots-tag"] == "noindex, nofollow"
    assert not await db.run(Share.objects.exists)


async def test_share_is_listed_without_token_and_revoked(ada_calls, talk):
    share = await shared(ada_calls, talk, expiresInDays=1)
    address = f"/sessions/{talk.pk}/shares"
    token = share["url"].rpartition("/")[2]
    assert len(token) >= 32
    assert token not in str(await db.run(Share.objects.values().get)), "it is not kept"
    [listed] = (await ada_calls.get(address)).body["items"]
    assert listed == {name: value for name, value in share.items() if name not in ("url", "apiUrl")}
    assert (await ada_calls.post(address, {"expiresInDays": 0})).fields == ["expiresInDays"]
    assert (await ada_calls.delete(f"{address}/{share['id']}")).status == 204
    assert (await ada_calls.delete(f"{address}/{share['id']}")).status == 404
    assert (await ada_calls.get(address)).body["items"] == []


async def test_who_looks_too_often_waits(ada_calls, anybody, talk, settings, monkeypatch):
    monkeypatch.setattr(quotas, "time", lambda: 1_800_000_000.0)
    settings.SHARED_VIEWS_PER_MINUTE = 3
    share = await shared(ada_calls, talk)
    path = api_path(share)
    answers = [await anybody.get(path) for _ in range(3)]
    assert [answer.status for answer in answers] == [200] * 3
    held_back = await anybody.get(path)
    assert held_back.status == 429
    assert int(held_back.headers["retry-after"]) <= 60
    assert (await db.run(opened, page_path(share))).status_code == 429


async def test_anybody_reads_the_shared_page(ada_calls, talk):
    share = await shared(ada_calls, talk, withArtifacts=True)
    page = await db.run(opened, page_path(share))
    text = page.content.decode()
    assert page.status_code == 200
    for shown in ("What is it?", "<strong>this</strong>", "Shared by Ada", "hello.txt", "the answer"):
        assert shown in text
    assert "<script>alert" not in text
    assert not any(secret in text for secret in SECRETS)
    assert (page["X-Robots-Tag"], page["Cache-Control"]) == ("noindex, nofollow", "no-store")
    assert page["Referrer-Policy"] == "no-referrer"
    file = await db.run(opened, text.partition('href="/shared/')[2].partition('"')[0].join(("/shared/", "")))
    assert b"".join(file.streaming_content) == b"hello"
    assert file["Content-Disposition"].startswith("attachment")
    await ada_calls.delete(f"/sessions/{talk.pk}/shares/{share['id']}")
    gone, never = await db.run(opened, page_path(share)), await db.run(opened, "/shared/never-given")
    assert (gone.status_code, without_nonces(gone.content)) == (404, without_nonces(never.content))
    assert gone["Cache-Control"] == "no-store"
