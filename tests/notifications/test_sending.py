"""Each channel against a real receiver; what is sent is sent once."""

import asyncio
import json
import re
import uuid
from email.policy import SMTP

import http_ece
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc import jwt
from joserfc.jwk import ECKey
from standardwebhooks.webhooks import Webhook

import db
from apps.accounts.models import Membership
from apps.accounts.webhook_signatures import new_secret
from apps.engine import accept
from apps.features.notifications import choices, push, sending, wording
from apps.features.notifications.models import Channel, Notification, PushKey
from apps.features.notifications.sending import Sender, claim, publish_due
from apps.record.models import Context
from tests.docs.pages import page_at
from tests.members import signed_in
from tests.notifications.conftest import LONG_AGO, make_due, send, told
from tests.stack import ROOT
from tests.web import telling

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("notifications are claimed in SQL"),
]
SLOT = {"name": "format"}
HOSTILE = "Hi\r\nBcc: eve@example.org\n<script>alert(1)</script> <!channel> & done"


def documented():
    """The check that the page on notifications shows to receivers."""
    shown = {}
    exec(page_at(ROOT / "docs/how-to/notifications.md").python, shown)
    return shown["is_from_parley"]


async def fail(ada, echo, words="It broke."):
    return await db.run(lambda: telling.failed(signed_in(ada), echo, words))


async def ask(ada, echo, words="Which format?"):
    return await db.run(lambda: telling.asked(signed_in(ada), echo, SLOT, words))


class TestWebhook:
    async def test_it_gets_what_happened_signed_and_the_same_id_over_retries(self, ada, echo, add, receiver, sender):
        channel, secret = await db.run(choices.add, ada.principal, {"type": "webhook", "url": receiver.url})
        receiver.statuses = ["500 Broken"]
        failed = await fail(ada, echo)
        await send(sender, channel)
        assert await db.run(told, channel) == [("failed", "waiting")]
        newer = await db.run(choices.rotate, channel)
        await send(sender, channel)
        assert await db.run(told, channel) == [("failed", "sent")]
        first, second = receiver.calls
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        for call, known in ((first, secret), (second, secret), (second, newer)):
            body = Webhook(known).verify(call.body, call.headers)
            assert documented()(known, call.headers, call.body)
        assert not documented()(new_secret(), second.headers, second.body)
        assert body["type"] == "task.failed"
        assert body["data"]["sessionId"] == str(failed.context)
        assert body["data"]["text"] == "It broke."
        assert body["data"]["url"].endswith(f"/sessions/{failed.context}")

    async def test_what_is_gone_is_switched_off_and_what_fails_for_a_day_is_given_up(
        self, ada, echo, add, receiver, sender, settings
    ):
        channel = await db.run(lambda: add("webhook", url=receiver.url))
        await fail(ada, echo)
        await db.run(Notification.objects.update, queued_at=LONG_AGO)
        receiver.statuses = ["500 Broken", "410 Gone"]
        await send(sender, channel)
        assert await db.run(told, channel) == [("failed", "failed")]
        assert await db.run(sending.retry, [(await Notification.objects.aget()).pk]) == 1
        await send(sender, channel)
        channel = await Channel.objects.aget()
        assert (channel.is_on, bool(channel.problem)) == (False, True)
        assert await db.run(told, channel) == [("failed", "failed")]


class TestMail:
    async def test_a_letter_has_a_link_and_a_way_to_stop_and_no_header_of_an_agent(
        self, ada, echo, add, letters, sender
    ):
        channel = await db.run(lambda: add("mail"))
        asked = await ask(ada, echo, HOSTILE)
        await db.run(_rename, asked.context, HOSTILE)
        await send(sender, channel)
        [letter] = letters
        raw = letter.message()
        assert letter.to == ["ada@example.org"]
        assert raw["Bcc"] is None
        assert "\n" not in letter.subject
        [link] = re.findall(rb"\r\nList-Unsubscribe: <(http\S+)>\r\n", letter.message(policy=SMTP).as_bytes())
        assert wording.stopped_by(link.decode().rpartition("/")[2]) == (channel.pk, "asks")
        assert raw["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
        [(html, _)] = [(one.content, one.mimetype) for one in letter.alternatives]
        assert "<script>" not in html
        assert "&lt;script&gt;" in html
        for text in (letter.body, html):
            assert f"/sessions/{asked.context}" in text

    async def test_several_in_a_window_are_one_letter(self, ada, echo, add, letters, sender):
        channel = await db.run(lambda: add("mail", digest="hour"))
        for number in range(3):
            await fail(ada, echo, f"Broken {number}")
        await sender.drain(channel.pk)
        assert letters == []
        await send(sender, channel)
        [letter] = letters
        assert all(f"Broken {number}" in letter.body for number in range(3))
        assert await db.run(told, channel) == [("failed", "sent")] * 3

    async def test_a_question_that_was_answered_meanwhile_is_not_mailed(self, ada, echo, add, letters, sender):
        channel = await db.run(lambda: add("mail", kinds=["asks"]))
        asked = await ask(ada, echo)
        answer = telling.said("PDF", taskId=str(asked.task))
        await db.run(lambda: accept.accept(signed_in(ada).principal, echo, answer))
        await send(sender, channel)
        assert letters == []
        assert await db.run(told, channel) == [("asks", "skipped")]

    async def test_what_the_person_may_no_longer_see_is_not_mailed(self, ada, echo, add, letters, sender):
        channel = await db.run(lambda: add("mail"))
        await fail(ada, echo)
        await db.run(lambda: Membership.objects.filter(user=ada).delete())
        await send(sender, channel)
        assert letters == []

    async def test_nobody_gets_two_though_a_worker_died_and_a_failure_is_tried_again(
        self, ada, echo, add, letters, sender, monkeypatch
    ):
        channel = await db.run(lambda: add("mail"))
        await fail(ada, echo)
        monkeypatch.setattr(wording.Letter, "send", _refuse)
        await send(sender, channel)
        assert await db.run(told, channel) == [("failed", "waiting")]
        monkeypatch.undo()
        await db.run(make_due)
        assert await db.run(claim, channel.pk)  # its worker is killed now
        await db.run(Notification.objects.update, lease_until=LONG_AGO)
        await db.run(publish_due)
        await send(sender, channel)
        assert letters == []
        row = await Notification.objects.aget()
        assert (row.state, row.reason) == ("failed", sending.LOST)


def _refuse(*_, **__):
    raise ConnectionRefusedError


def _rename(session, title):
    Context.objects.filter(pk=session).update(title=title)


class TestSlack:
    async def test_text_of_agents_is_escaped_and_the_link_is_ours(self, ada, echo, add, receiver, sender):
        channel = await db.run(lambda: add("slack", url=receiver.url))
        asked = await ask(ada, echo, HOSTILE)
        await send(sender, channel)
        [call] = receiver.calls
        text = call.json["text"]
        assert "<!channel>" not in text
        assert "&lt;!channel&gt; &amp; done" in text
        assert f"/sessions/{asked.context}|Answer>" in text


class TestPush:
    @pytest.fixture
    def browser(self):
        return ec.generate_private_key(push.CURVE)

    @pytest.fixture
    def subscribe(self, browser, receiver, add):
        keys = {"p256dh": push.encoded(push.point_of(browser.public_key())), "auth": push.encoded(b"0123456789abcdef")}
        return lambda: add("push", url=receiver.url, keys=keys)

    async def test_the_browser_alone_can_read_it_and_the_push_service_knows_the_sender(
        self, ada, echo, subscribe, browser, receiver, sender
    ):
        channel = await db.run(subscribe)
        asked = await ask(ada, echo)
        await send(sender, channel)
        [call] = receiver.calls
        told_ = http_ece.decrypt(call.body, private_key=browser, auth_secret=b"0123456789abcdef", version="aes128gcm")
        about = json.loads(told_)
        assert about["body"] == "Which format?"
        assert about["href"] == f"/sessions/{asked.context}"
        assert call.headers["Content-Encoding"] == "aes128gcm"
        token = call.headers["Authorization"].removeprefix("vapid t=").partition(",")[0]
        key = await PushKey.objects.aget()
        claims = jwt.decode(token, ECKey.import_key(key.private)).claims
        assert receiver.url.startswith(claims["aud"])
        assert call.headers["Authorization"].endswith(f"k={key.public}")

    async def test_a_browser_that_is_gone_is_forgotten(self, ada, echo, subscribe, receiver, sender):
        channel = await db.run(subscribe)
        await ask(ada, echo)
        receiver.statuses = ["410 Gone"]
        await send(sender, channel)
        assert not await Channel.objects.aexists()
        assert not (await db.run(signed_in, ada)).is_notified

    async def test_the_next_person_at_the_browser_takes_it_over(self, ada, bob, subscribe, browser, receiver):
        hers = await db.run(subscribe)
        values = {"type": "push", "url": receiver.url, "keys": json.loads(hers.push_keys)}
        await db.run(choices.add, bob.principal, values)
        assert [one.user_id async for one in Channel.objects.all()] == [bob.pk]


def test_a_push_message_is_that_of_the_standards_example():
    """RFC 8291 §5."""
    keys = push.Keys.read(
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        "BTBZMqHH6r4Tts7J_aSIgg",
    )
    number = int.from_bytes(push.decoded("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
    private = ec.derive_private_key(number, push.CURVE)
    body = push.encrypted(
        b"When I grow up, I want to be a watermelon", keys, private, push.decoded("DGv6ra1nlYgDCS1FRnbzlw")
    )
    assert push.encoded(body) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT"
        "pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )


class TestOnce:
    async def test_two_workers_at_once_send_it_once(self, ada, echo, add, receiver, sender):
        channel = await db.run(lambda: add("webhook", url=receiver.url))
        for _ in range(3):
            await fail(ada, echo)
        await db.run(make_due)
        other = Sender()
        await asyncio.gather(sender.drain(channel.pk), other.drain(channel.pk))
        await other.close()
        ids = [call.headers["webhook-id"] for call in receiver.calls]
        assert len(ids) == len(set(ids)) == 3

    async def test_a_webhook_whose_worker_died_is_called_again_with_the_same_id(
        self, ada, echo, add, receiver, sender, monkeypatch
    ):
        channel = await db.run(lambda: add("webhook", url=receiver.url))
        await fail(ada, echo)
        monkeypatch.setattr(sending, "record_result", lambda *_: None)  # killed between sending and noting it
        await db.run(make_due)
        await sender.drain(channel.pk)
        monkeypatch.undo()
        assert await db.run(told, channel) == [("failed", "sending")]
        await db.run(Notification.objects.update, lease_until=LONG_AGO)
        await db.run(publish_due)
        await sender.drain(channel.pk)
        first, second = receiver.calls
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        assert await db.run(told, channel) == [("failed", "sent")]

    async def test_the_sweep_publishes_what_is_due_and_nothing_else(self, ada, echo, add, monkeypatch):
        published = []
        monkeypatch.setattr(sending, "publish_channels", published.extend)
        channel = await db.run(lambda: add("slack", url="http://127.0.0.1:9/"))
        await fail(ada, echo)
        await db.run(publish_due)
        assert published == []
        await db.run(make_due)
        await db.run(publish_due)
        assert published == [channel.pk]


async def test_a_worker_sends_by_itself(worker, ada, echo, add, receiver, monkeypatch):
    monkeypatch.undo()
    await db.run(lambda: add("webhook", url=receiver.url))
    await fail(ada, echo)
    async with asyncio.timeout(30):
        await receiver.came.wait()
    assert [call.json["data"]["text"] for call in receiver.calls] == ["It broke."]


async def test_a_test_says_what_happened(add, receiver, letters):
    hook = await db.run(lambda: add("webhook", url=receiver.url))
    receiver.statuses = ["200 OK", "403 Forbidden"]
    assert [(await asyncio.to_thread(_tested, hook)).status for _ in range(2)] == [200, 403]
    letter = await db.run(lambda: add("mail"))
    assert (await asyncio.to_thread(_tested, letter)).is_success
    assert len(letters) == 1
    assert json.loads(receiver.calls[0].body)["type"] == "test"


def _tested(channel):
    return db.with_database(sending.send_test, channel)


def test_a_link_to_stop_is_ours_alone(ada, add, letters):
    channel = add("mail")
    token = wording.stop_link(channel, "asks").rpartition("/")[2]
    assert wording.stopped_by(token) == (channel.pk, "asks")
    assert wording.stopped_by(token[:-1]) is None
    assert not choices.stop(uuid.uuid4(), "asks")


def test_old_ones_are_deleted_and_waiting_ones_are_kept(ada, echo, add):
    add("webhook", url="http://127.0.0.1:9/")
    for _ in range(2):
        telling.failed(signed_in(ada), echo)
    old = Notification.objects.first()
    Notification.objects.filter(pk=old.pk).update(state="sent", finished_at=LONG_AGO)
    assert sending.delete_old() == 1
    assert [one.state for one in Notification.objects.all()] == ["waiting"]
