"""What is Microsoft Teams' own: whose tokens count, what is to the agent, and how it is shown."""

import json
import time

import pytest

from apps.optional.channels.channels import TEST, CheckFailed
from apps.optional.channels.models import ChatChannel, ChatThread
from apps.optional.channels.platforms import At, File, Refused
from apps.optional.channels.teams import receiving
from apps.optional.channels.teams.marking import html_of, lines_of
from apps.optional.channels.teams.platform import Teams
from apps.record.models import Context, Message
from parley import db, outbound
from tests.channels.standin import standing
from tests.channels.teams import BOT, TeamsStandIn, signed


@pytest.fixture
async def at(monkeypatch):
    async with standing(TeamsStandIn()) as one:
        one.attach(monkeypatch)
        yield one


@pytest.fixture
def channel():
    made = ChatChannel(platform="teams")
    made.credentials = TeamsStandIn.credentials
    return made


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, True),
        ({"aud": "another-bot"}, False),
        ({"iss": "https://evil.example"}, False),
        ({"exp": int(time.time()) - 86_400}, False),
        ({"nbf": int(time.time()) + 86_400}, False),
        ({"serviceurl": "https://evil.example/"}, False),
        ({"kid": "unknown"}, False),
    ],
)
async def test_token_is_for_bot_and_service(at, channel, changes, counts):
    body = at.activity("ada", "message", "1")[1]
    headers = signed(at.service, **changes)
    assert Teams().may_be_genuine(channel, headers)
    assert await Teams().is_genuine(channel, headers, body, time.time()) == counts


async def test_key_must_be_endorsed_for_teams(at, channel):
    at.endorsements = ("webchat",)
    headers, body = at.activity("ada", "message", "1")
    assert not await Teams().is_genuine(channel, headers, body, time.time())


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("platform", ["teams"], indirect=True)
async def test_failed_fetch_of_keys_is_tried_again_soon(chat, monkeypatch):
    monkeypatch.setattr("apps.optional.channels.teams.proving.AGAIN_SECONDS", 0.0)
    chat.at.has_no_keys = True
    assert await chat.deliver(chat.at.message("ada", "hello")) == 503
    chat.at.has_no_keys = False
    assert await chat.deliver(chat.at.message("ada", "hello")) == 200


def read(**changes):
    return list(receiving.read(TeamsStandIn().activity("ada", "message", "1", "5", **changes)[1]).events)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"text": "hi"}, [("hi", False)]),
        ({"text": "hi", "conversation": {"id": "a:1", "conversationType": "personal"}}, [("hi", True)]),
        (
            {
                "text": "<at>Parley</at> tell <at>Bob</at> a &lt; b",
                "entities": [
                    {"type": "mention", "text": "<at>Parley</at>", "mentioned": {"id": BOT}},
                    {"type": "mention", "text": "<at>Bob</at>", "mentioned": {"id": "29:bob", "name": "Bob"}},
                ],
            },
            [("tell @Bob a < b", True)],
        ),
        ({"text": "hi", "from": {"id": BOT}}, []),
        ({"text": "", "attachments": []}, []),
    ],
)
def test_messages_to_agent(changes, found):
    assert [(one.text, one.is_addressed) for one in read(**changes)] == found


def test_new_begins_session():
    assert [(one.text, one.begins_anew) for one in read(text="/new go on")] == [("go on", True)]
    assert [one.begins_anew for one in read(text="/newer")] == [False]


def test_equal_ids_of_two_conversations_are_two_events():
    told = [TeamsStandIn().activity("ada", "message", "1", "5", place, text="hi")[1] for place in ("19:a", "19:b")]
    assert len({one.event_id for body in told for one in receiving.read(body).events}) == 2


async def test_token_goes_to_own_service_alone(at, channel):
    own = {"contentType": "image/*", "contentUrl": f"{at.service}v3/attachments/1/views/original"}
    info = "application/vnd.microsoft.teams.file.download.info"
    file = {"contentType": info, "name": "notes.txt", "content": {"downloadUrl": f"{at.url}/files/1"}}
    body = json.loads(at.activity("ada", "message", "1", text="look", attachments=[own, file])[1])
    [one] = receiving.read(json.dumps(body).encode()).events
    async with outbound.exchange() as client:
        contents = [await Teams().download(client, channel, File(file.name, file.where)) for file in one.files]
    assert contents == [b"content of an image", b"content of the file"]


async def test_images_are_shown_and_other_files_refused(at, channel):
    place = At(channel, "19:c@thread.tacv2", "1", at.service)
    async with outbound.exchange() as client:
        await Teams().upload(client, place, "plot.png", "image/png", b"png")
        with pytest.raises(Refused):
            await Teams().upload(client, place, "table.csv", "text/csv", b"a,b")
    assert [one.file for one in at.shown] == [b"png"]


def test_words_of_agents_stay_words():
    assert html_of("<at>all</at> **a < b**\n\n```\nx\n  y\n```") == (
        "&lt;at&gt;all&lt;/at&gt; <b>a &lt; b</b><br><br><pre>x&#10;  y</pre>"
    )
    runs = [block["inlines"][0] for block in lines_of("**May it?**\n\n```json\n{\n  1\n}\n```")]
    assert [one["text"] for one in runs] == ["May it?", " ", "{", "\xa0\xa01", "}"]
    assert [one.get("fontType") for one in runs] == [None, None, *["Monospace"] * 3]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("platform", ["teams"], indirect=True)
async def test_wrong_secret_is_told(chat, ada):
    def change():
        made = ChatChannel.objects.get()
        made.credentials = {"client_secret": "another"}
        made.save()
        TEST.perform(ada.principal, made)

    with pytest.raises(CheckFailed, match="invalid_client"):
        await db.run(change)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("platform", ["teams"], indirect=True)
async def test_thread_outlives_its_service_address(chat, monkeypatch):
    await chat.do(chat.at.message("ada", "hello", key="1"))
    moved = f"{chat.at.url}/amer/"
    monkeypatch.setattr(TeamsStandIn, "service", moved)
    await chat.do(chat.at.message("ada", "more", thread="1", key="2"))
    thread = await ChatThread.objects.aget()
    assert (thread.server, await Context.objects.acount()) == (moved, 1)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("platform", ["teams"], indirect=True)
async def test_typing_is_shown_and_token_kept(chat):
    for key in ("1", "2"):
        await chat.do(chat.at.message("ada", "hello", key=key))
    assert (chat.at.typed, chat.at.tokens) == (2, 1)
    assert await Message.objects.filter(role="user").acount() == 2
