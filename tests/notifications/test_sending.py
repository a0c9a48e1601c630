"""Each channel against a real receiver; what is sent is sent once."""

import asyncio
import json
import re
from email.policy import SMTP

import http_ece
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc import jwt
from joserfc.jwk import ECKey
from standardwebhooks.webhooks import Webhook

from apps.accounts.models import Membership
from apps.accounts.secrets.webhook_signatures import new_secret
from apps.engine import accept
from apps.notifications import choices, push, sending, wording
from apps.notifications.models import Channel, Notification, PushKey
from apps.notifications.sending import NOTIFICATIONS_TO_SEND, claim
from apps.record.models import Context
from parley import db
from tests.clients import telling
from tests.docs.pages import page_at
from tests.members import signed_in
from tests.notifications.conftest import LONG_AGO, make_due, send, told
from tests.stack import ROOT
from tests.work.hand import Worker

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("notifications are claimed in SQL")]
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


async def test_webhooks_are_signed_and_keep_their_id(ada, echo, add, receiver, sender):
    channel = await db.run(add, "webhook", url=receiver.url)
    secret = channel.secret
    receiver.statuses = ["500 Broken"]
    failed = await fail(ada, echo)
    await send(sender, channel)
    assert await db.run(told, channel) == [("failed", "waiting")]
    newer = (await db.run(choices.ROTATE.perform, ada.principal, channel)).secret
    await send(sender, channel)
    assert await db.run(told, channel) == [("failed", "sent")]
    first, second = receiver.calls
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    for call, known in ((first, secret), (second, secret), (second, newer)):
        body = Webhook(known).verify(call.body, call.headers)
        assert documented()(known, call.headers, call.body)
    assert not documented()(new_secret(), second.headers, second.body)
    assert body["type"] == "task.failed"
    assert (body["data"]["sessionId"], body["data"]["text"]) == (str(failed.context), "It broke.")
    assert body["data"]["url"].endswith(f"/sessions/{failed.context}")


async def test_failing_webhooks_are_given_up_or_switched_off(ada, echo, add, receiver, sender):
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


async def test_letters_have_links_and_no_foreign_header(ada, echo, add, letters, sender):
    channel = await db.run(lambda: add("mail"))
    asked = await ask(ada, echo, HOSTILE)
    await db.run(Context.objects.filter(pk=asked.context).update, title=HOSTILE)
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


async def test_several_in_a_window_are_one_letter(ada, echo, add, letters, sender):
    channel = await db.run(lambda: add("mail", digest="hour"))
    for number in range(3):
        await fail(ada, echo, f"Broken {number}")
    await sender.drain(channel.pk)
    assert letters == []
    await send(sender, channel)
    [letter] = letters
    assert all(f"Broken {number}" in letter.body for number in range(3))
    assert await db.run(told, channel) == [("failed", "sent")] * 3


async def test_answered_or_hidden_questions_are_not_mailed(ada, echo, add, letters, sender):
    channel = await db.run(lambda: add("mail", kinds=["asks"]))
    asked = await ask(ada, echo)
    answer = telling.said("PDF", taskId=str(asked.task))
    await db.run(lambda: accept.accept(signed_in(ada).principal, echo, answer))
    await send(sender, channel)
    assert await db.run(told, channel) == [("asks", "skipped")]
    await ask(ada, echo)
    await db.run(lambda: Membership.objects.filter(user=ada).delete())
    await send(sender, channel)
    assert letters == []


async def test_letters_of_killed_workers_are_not_repeated(ada, echo, add, letters, sender, monkeypatch):
    def refuse(*_):
        raise ConnectionRefusedError

    channel = await db.run(lambda: add("mail"))
    await fail(ada, echo)
    monkeypatch.setattr(wording.Letter, "send", refuse)
    await send(sender, channel)
    assert await db.run(told, channel) == [("failed", "waiting")], "a failure is tried again"
    monkeypatch.undo()
    await db.run(make_due)
    assert await db.run(claim, channel.pk)  # its worker is killed now
    await db.run(Notification.objects.update, lease_until=LONG_AGO)
    await db.run(NOTIFICATIONS_TO_SEND.sweep)
    await send(sender, channel)
    assert letters == []
    row = await Notification.objects.aget()
    assert (row.state, row.reason) == ("failed", sending.LOST)


async def test_slack_gets_escaped_text_and_our_link(ada, echo, add, receiver, sender):
    channel = await db.run(lambda: add("slack", url=receiver.url))
    asked = await ask(ada, echo, HOSTILE)
    await send(sender, channel)
    [call] = receiver.calls
    text = call.json["text"]
    assert "<!channel>" not in text
    assert "&lt;!channel&gt; &amp; done" in text
    assert f"/sessions/{asked.context}|Answer>" in text


@pytest.fixture
def browser():
    return ec.generate_private_key(push.CURVE)


@pytest.fixture
def subscribe(browser, receiver, add):
    keys = {"p256dh": push.encoded(push.point_of(browser.public_key())), "auth": push.encoded(b"0123456789abcdef")}
    return lambda *user: add("push", *user, url=receiver.url, push_keys=json.dumps(keys))


async def test_push_is_for_the_browser_alone(ada, echo, subscribe, browser, receiver, sender):
    channel = await db.run(subscribe)
    asked = await ask(ada, echo)
    await send(sender, channel)
    [call] = receiver.calls
    read = http_ece.decrypt(call.body, private_key=browser, auth_secret=b"0123456789abcdef", version="aes128gcm")
    about = json.loads(read)
    assert (about["body"], about["href"]) == ("Which format?", f"/sessions/{asked.context}")
    assert call.headers["Content-Encoding"] == "aes128gcm"
    token = call.headers["Authorization"].removeprefix("vapid t=").partition(",")[0]
    key = await PushKey.objects.aget()
    claims = jwt.decode(token, ECKey.import_key(key.private)).claims
    assert receiver.url.startswith(claims["aud"])
    assert call.headers["Authorization"].endswith(f"k={key.public}")


async def test_browsers_change_hands_and_are_forgotten(ada, bob, echo, subscribe, receiver, sender):
    await db.run(subscribe)
    channel = await db.run(subscribe, bob)
    assert [one.user_id async for one in Channel.objects.all()] == [bob.pk]
    await ask(bob, echo)
    receiver.statuses = ["410 Gone"]
    await send(sender, channel)
    assert not await Channel.objects.aexists()
    assert not (await db.run(signed_in, bob)).is_notified


async def test_two_workers_at_once_send_it_once(ada, echo, add, receiver, sender):
    channel = await db.run(lambda: add("webhook", url=receiver.url))
    for _ in range(3):
        await fail(ada, echo)
    await db.run(make_due)
    other = Worker(NOTIFICATIONS_TO_SEND)
    await asyncio.gather(sender.drain(channel.pk), other.drain(channel.pk))
    await other.close()
    ids = [call.headers["webhook-id"] for call in receiver.calls]
    assert len(ids) == len(set(ids)) == 3


async def test_webhooks_of_killed_workers_are_repeated(ada, echo, add, receiver, sender, monkeypatch):
    channel = await db.run(lambda: add("webhook", url=receiver.url))
    await fail(ada, echo)
    monkeypatch.setattr(sending, "record_result", lambda *_: None)  # killed between sending and noting it
    await db.run(make_due)
    await sender.drain(channel.pk)
    monkeypatch.undo()
    assert await db.run(told, channel) == [("failed", "sending")]
    await db.run(Notification.objects.update, lease_until=LONG_AGO)
    await db.run(NOTIFICATIONS_TO_SEND.sweep)
    await sender.drain(channel.pk)
    first, second = receiver.calls
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert await db.run(told, channel) == [("failed", "sent")]


async def test_a_worker_sends_by_itself(worker, ada, echo, add, receiver, monkeypatch):
    monkeypatch.undo()
    await db.run(lambda: add("webhook", url=receiver.url))
    await fail(ada, echo)
    async with asyncio.timeout(30):
        await receiver.came.wait()
    assert [call.json["data"]["text"] for call in receiver.calls] == ["It broke."]


async def test_a_test_says_what_happened(add, receiver, letters):
    async def tested(channel):
        perform = lambda: sending.TEST.perform(channel.user.principal, channel)  # noqa: E731
        return await asyncio.to_thread(db.with_database, perform)

    hook = await db.run(lambda: add("webhook", url=receiver.url))
    receiver.statuses = ["200 OK", "403 Forbidden"]
    assert "answered 200" in await tested(hook)
    with pytest.raises(sending.TestFailed, match="answered 403"):
        await tested(hook)
    letter = await db.run(lambda: add("mail"))
    assert "is sent" in await tested(letter)
    assert len(letters) == 1
    assert json.loads(receiver.calls[0].body)["type"] == "test"


def test_old_notifications_are_deleted_unless_they_wait(ada, echo, add):
    add("webhook", url="http://127.0.0.1:9/")
    for _ in range(2):
        telling.failed(signed_in(ada), echo)
    old = Notification.objects.first()
    Notification.objects.filter(pk=old.pk).update(state="sent", finished_at=LONG_AGO)
    assert sending.delete_old() == 1
    assert [one.state for one in Notification.objects.all()] == ["waiting"]
