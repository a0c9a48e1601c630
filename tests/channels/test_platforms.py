"""What is each platform's own: which requests count, and what of them is to the agent."""

import json
import time

import pytest
from rest_framework.serializers import ChoiceField

from apps.optional.channels import channels, linking
from apps.optional.channels.api import NewChatChannel
from apps.optional.channels.mail.mailbox import Mailbox
from apps.optional.channels.mail.marking import html_of
from apps.optional.channels.mail.platform import Mail
from apps.optional.channels.models import ChatAccount, ChatChannel
from apps.optional.channels.platforms import Refused
from apps.optional.channels.slack.platform import Slack
from apps.optional.channels.telegram.platform import Telegram
from parley.registry import added
from tests.channels.mail import MailStandIn
from tests.channels.slack import BOT, SlackStandIn, signed
from tests.channels.telegram import TelegramStandIn


@pytest.fixture
def channel():
    def make(stand_in, **fields):
        made = ChatChannel(platform=stand_in.name, **fields)
        made.credentials = stand_in.credentials
        stand_in.channel = str(made.pk)
        return made

    return make


def read(platform, channel, request):
    headers, body = request
    return platform.read(channel, headers, body).events


# Slack


async def test_old_slack_request_counts_no_more(channel):
    at = SlackStandIn()
    made, body = channel(at), b"{}"
    assert await Slack().is_genuine(made, signed(body), body, time.time())
    assert not await Slack().is_genuine(made, signed(body, time.time() - 301), body, time.time())


def test_slack_gets_its_challenge_back(channel):
    body = json.dumps({"type": "url_verification", "challenge": "c"}).encode()
    answer = Slack().read(channel(SlackStandIn()), {}, body).answer
    assert json.loads(answer.content) == {"challenge": "c"}


@pytest.mark.parametrize(
    ("event", "is_addressed"),
    [
        ({"type": "message", "channel_type": "im"}, [True]),
        ({"type": "message", "channel_type": "channel"}, [False]),
        ({"type": "app_mention", "text": f"<@{BOT}> hello"}, [True]),
        ({"type": "message", "channel_type": "channel", "text": f"<@{BOT}> hello"}, []),  # comes as a mention
        ({"type": "message", "channel_type": "im", "bot_id": "B1"}, []),
        ({"type": "message", "channel_type": "im", "subtype": "channel_join"}, []),
    ],
)
def test_slack_messages_to_agent(channel, event, is_addressed):
    at = SlackStandIn()
    found = read(Slack(), channel(at), at.event({"user": "ada", "channel": "C1", "ts": "1.1", "text": "hi"} | event))
    assert [one.is_addressed for one in found] == is_addressed
    assert all(BOT not in one.text for one in found)


def test_slack_preview_of_link_is_no_edit(channel):
    at = SlackStandIn()
    assert read(Slack(), channel(at), at.edit("ada", "1.1", "before")) == []


# Telegram


def test_telegram_group_talk_is_not_to_agent(channel):
    at = TelegramStandIn()
    made = channel(at, identity="@parley_bot")
    said = {**at._message("ada", ""), "text": "hello"}
    assert [one.is_addressed for one in read(Telegram(), made, at.update(message=said))] == [False]
    named = at.update(message={**said, "text": "@Parley_bot hello"})
    assert [(one.is_addressed, one.text) for one in read(Telegram(), made, named)] == [(True, "hello")]


@pytest.mark.parametrize(
    ("text", "found"), [("/new", ("", True)), ("/new go", ("go", True)), ("/newer", ("/newer", False))]
)
def test_telegram_new_begins_session(channel, text, found):
    at = TelegramStandIn()
    [one] = read(Telegram(), channel(at), at.message("ada", text))
    assert (one.text, one.begins_anew) == found


# E-mail


PASSED = "mx.example.org; spf=pass; dmarc=pass header.from=elsewhere.example"


@pytest.mark.parametrize(
    ("results", "counts"),
    [
        ([PASSED], True),
        ([], False),
        (["mx.example.org; dmarc=fail"], False),
        (["mx.example.org; dmarc=fail", PASSED], False),  # the sender wrote the second
        (["other.example; dmarc=pass"], False),
        (["mx.example.org; x-dmarc=pass header.from=elsewhere.example"], False),
        (["mx.example.org; dmarc=pass"], False),
        (["mx.example.org; dmarc=pass header.from=evil.example"], False),
        (['mx.example.org; spf=fail reason="; dmarc=pass header.from=elsewhere.example"'], False),
        (["mx.example.org; spf=fail (; dmarc=pass header.from=elsewhere.example)"], False),
        ([r"mx.example.org; spf=fail (\); dmarc=pass header.from=elsewhere.example)"], False),
        (["mx.example.org; spf=fail (=?utf-8?q?)=3Bdmarc=3Dpass_header=2Efrom=3Delsewhere=2Eexample=28?=)"], False),
        (["mx.example.org; dmarc=fail header.from=elsewhere.example; dmarc=pass header.from=elsewhere.example"], False),
        (["mx.example.org 1; spf=pass (a (b) c); DMARC = pass (p=none) header.from=Elsewhere.Example"], True),
    ],
)
def test_letter_counts_only_from_its_proven_sender(channel, results, counts):
    at = MailStandIn()
    letter = at.letter("ada", "hello", Message_ID="<1@elsewhere.example>")
    del letter["Authentication-Results"]
    lines = "".join(f"Authentication-Results: {one}\n" for one in results)
    body = lines.encode() + letter.as_bytes()
    assert bool(read(Mail(), channel(at), (at.sign(body), body))) == counts


@pytest.mark.parametrize(
    ("senders", "counts"),
    [
        (["Ada <ada@elsewhere.example>"], True),
        (['"Lovelace, Ada (she)" <Ada@Elsewhere.example> (at work)'], True),
        (["ada@elsewhere.example"], True),
        (["ada@elsewhere.example", "eve@elsewhere.example"], False),
        (["ada@elsewhere.example, eve@elsewhere.example"], False),
        (["<ada@elsewhere.example> <eve@elsewhere.example>"], False),
        (["ada@elsewhere.example <eve@elsewhere.example>"], False),
        (["eve@evil.example (ada@elsewhere.example)"], False),
        (['"ada@elsewhere.example" <eve@evil.example>'], False),
    ],
)
def test_letter_has_one_sender_of_proven_domain(channel, senders, counts):
    at = MailStandIn()
    content = at.letter("ada", "hello", Message_ID="<1@elsewhere.example>").as_bytes()
    lines = "".join(f"From: {one}\n" for one in senders).encode()
    body = content.replace(b"From: Ada <ada@elsewhere.example>\n", lines)
    found = [one.person for one in read(Mail(), channel(at), (at.sign(body), body))]
    assert found == (["ada@elsewhere.example"] if counts else [])


def test_letter_in_unknown_charset_is_read(channel):
    at = MailStandIn()
    made = at.letter("ada", "hello", Message_ID="<1@elsewhere.example>").as_bytes()
    body = made.replace(b'charset="utf-8"', b'charset="x-unknown"')
    assert b"x-unknown" in body
    assert [one.text for one in read(Mail(), channel(at), (at.sign(body), body))] == ["hello"]


@pytest.mark.parametrize(
    "image", ["![a<b](https://a.example/?x=1&y=2)", "![](https://a.example/x)", "![x][1]\n\n[1]: http://a.example"]
)
def test_letters_load_no_images(image):
    shown = html_of(image)
    assert "<img" not in shown
    assert '<a href="http' in shown


@pytest.mark.parametrize("header", [{"Auto_Submitted": "auto-replied"}, {"Precedence": "bulk"}, {"List_Id": "<a.b>"}])
def test_letters_of_machines_are_dropped(channel, header):
    at = MailStandIn()
    letter = at.letter("ada", "hello", Message_ID="<1@elsewhere.example>", **header)
    assert read(Mail(), channel(at), at.send(letter)) == ()


def test_quoted_text_is_left_out(channel):
    at = MailStandIn()
    [one] = read(Mail(), channel(at), at.send(at.letter("ada", "hello\n\nthere", Message_ID="<1@elsewhere.example>")))
    assert one.text == "hello\n\nthere"


@pytest.mark.parametrize("port", ["x", "0", "70000", "9" * 4_300])
def test_impossible_port_is_refused(port):
    with pytest.raises(Refused, match="Write the IMAP server"):
        Mailbox.of({"imap_server": f"imap.example.org:{port}", "imap_password": "p"}, 1)


@pytest.mark.django_db
def test_persons_archive_has_linked_accounts_and_no_secret(ada, echo):
    made = ChatChannel(name="Help", platform="slack", agent=echo)
    made.credentials = SlackStandIn.credentials
    channels.save(ada.principal, made)
    ChatAccount.objects.create(channel=made, user=ada, external_id="U1")
    [(_, _, content)] = linking.personal_data(ada)
    assert [one["account"] for one in content["accounts"]] == ["U1"]
    assert not any(secret in json.dumps(content) for secret in SlackStandIn.credentials.values())


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"imap_password": ""}, {"imap_server": "a.example", "imap_user": "ada", "imap_password": "p"}),
        ({"imap_user": ""}, {"imap_server": "a.example", "imap_password": "p"}),
        ({"imap_server": "evil.example"}, {"imap_server": "evil.example", "imap_user": "ada"}),
        ({"imap_server": "", "imap_password": ""}, {"imap_user": "ada"}),
        (
            {"imap_server": "b.example", "imap_password": "q"},
            {"imap_server": "b.example", "imap_user": "ada", "imap_password": "q"},
        ),
    ],
)
def test_saved_secret_stays_with_its_address(given, kept):
    made = ChatChannel(platform="mail")
    made.credentials = {"imap_server": "a.example", "imap_user": "ada", "imap_password": "p"}
    made.credentials = given
    assert made.credentials == kept


def test_address_needs_its_secret():
    made = ChatChannel(platform="mail")
    made.credentials = {**MailStandIn.credentials, "imap_server": "a.example"}
    assert [one.name for one in channels.missing_settings(made)] == ["imap_password"]


@pytest.mark.django_db
def test_without_platforms_no_channel_is_made(ada, ada_browser, echo, monkeypatch):
    monkeypatch.setitem(added, "chat_platforms", ())
    answer = ada_browser.post("/settings/chat-channels/new", {"name": "Help", "agent": "echo"})
    assert answer.status_code == 422
    assert not isinstance(NewChatChannel().fields["platform"], ChoiceField), "a schema has no empty choice"
    assert not ChatChannel.objects.exists()
