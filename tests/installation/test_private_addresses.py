"""Operators allow private addresses in admin; `outbound` opens those at once and no others."""

import asyncio
import datetime
import threading

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from django.utils import timezone

import db
import outbound
from apps.accounts.models import User
from apps.installation import current
from apps.installation.models import NetworkAllowance
from outbound import Allowed, Guard, Limits, targets
from tests.llm.endpoint import Endpoint

pytestmark = pytest.mark.django_db(transaction=True)

ADD = reverse("admin:installation_networkallowance_add")
LIST = reverse("admin:installation_networkallowance_changelist")
DAY = datetime.timedelta(days=1)


def entry_of(endpoint: Endpoint) -> str:
    return f"127.0.0.1:{endpoint.port}"


def allow(entry: str, **fields) -> NetworkAllowance:
    return NetworkAllowance.objects.create(entry=entry, reason="test", **fields)


async def called(way: outbound.Exchange, endpoint: Endpoint) -> int:
    async with way.send("GET", f"{endpoint.url}/models", {}) as answer:
        await answer.read()
        return answer.status


async def test_an_address_is_checked_though_its_caller_gets_no_other_database_thread(settings):
    db.caller.set("ada")
    share = settings.BRIDGE_THREADS // 3
    together = threading.Barrier(share)

    def check():
        together.wait(20)
        outbound.guard().vet_now("https://93.184.215.14")

    current.forget()
    async with asyncio.timeout(20):
        await asyncio.gather(*(db.run(check) for _ in range(share)))


async def test_one_that_is_allowed_may_be_called_at_once_and_never_after_it_was_removed(endpoint):
    async with outbound.exchange(Limits(seconds=5)) as way:
        with pytest.raises(outbound.Private):
            await called(way, endpoint)
        row = await db.run(allow, entry_of(endpoint))
        assert await called(way, endpoint) == 200
        await db.run(row.delete)
        with pytest.raises(outbound.Private):
            await called(way, endpoint)


async def test_an_open_connection_does_not_outlive_its_allowance(endpoint):
    """By name, which is looked up only for a new connection."""
    url = f"http://localhost:{endpoint.port}/v1/models"
    row = await db.run(allow, entry_of(endpoint))
    await db.run(allow, "10.0.0.0/8")  # so that local names are looked up at all
    async with outbound.exchange(Limits(seconds=5)) as way:
        async with way.send("GET", url, {}) as answer:
            await answer.read()
        await db.run(row.delete)
        with pytest.raises(outbound.Private):
            async with way.send("GET", url, {}) as answer:
                await answer.read()


async def test_it_ends_when_it_expires(endpoint):
    row = await db.run(allow, entry_of(endpoint), expires_at=timezone.now() + DAY)
    guard = outbound.guard()
    await guard.vet(endpoint.url)
    row.expires_at = timezone.now() - DAY
    await db.run(row.save)
    with pytest.raises(outbound.Private):
        await guard.vet(endpoint.url)


def test_the_form_gives_thirty_days_by_default_and_never_on_request(operator):
    page = operator.get(ADD)
    assert page.context["adminform"].form.fields["lasts"].initial == "30"
    for entry, lasts, days in (("10.0.0.0/8", "30", 30), ("models.internal", "never", None)):
        operator.post(ADD, {"entry": entry, "reason": "Models", "lasts": lasts})
        row = NetworkAllowance.objects.get(entry=entry)
        left = None if row.expires_at is None else round((row.expires_at - timezone.now()) / DAY)
        assert (left, row.added_by.email) == (days, "op@example.org")
    change = reverse("admin:installation_networkallowance_change", args=[row.pk])
    operator.post(change, {"entry": row.entry, "reason": "Other", "lasts": "keep"})
    row.refresh_from_db()
    assert (row.reason, row.expires_at) == ("Other", None)
    assert LogEntry.objects.filter(content_type__model="networkallowance").count() == 3


@pytest.mark.parametrize(
    "entry",
    [
        "169.254.169.254",
        "169.254.169.254:80",
        "169.254.169.254/32",
        "[fd00:ec2::254]:80",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "100.100.100.200",
        "0.0.0.0/0",
        "::/0",
        "http://10.0.0.1",
        "10.0.0.1,10.0.0.2",
        "",
    ],
)
def test_metadata_half_the_internet_and_nonsense_cannot_be_allowed(operator, entry):
    answer = operator.post(ADD, {"entry": entry, "reason": "Models", "lasts": "30"})
    assert "entry" in answer.context["adminform"].form.errors
    assert not NetworkAllowance.objects.exists()


async def test_a_metadata_address_stays_closed_in_an_allowed_network_by_any_name_and_written_around_the_form():
    async def metadata(name: str, port: int) -> list[str]:
        return ["169.254.169.254"]

    await db.run(
        NetworkAllowance.objects.bulk_create,
        [
            NetworkAllowance(entry=entry)
            for entry in ("169.254.0.0/16", "metadata.internal", "169.254.169.254", "::ffff:0:0/96", "64:ff9b::/96")
        ],
    )
    current.forget()
    guard = Guard(Allowed(), metadata, current.CurrentAllowances())
    for url in (
        "http://169.254.169.254/",
        "http://metadata.internal/",
        "http://rebinding.example.org/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/",
    ):
        with pytest.raises(outbound.Forbidden, match=targets.NEVER_OPEN[:20]):
            await guard.vet(url)
    await guard.vet("http://169.254.1.1/")


def test_the_list_shows_what_the_environment_allows(operator, settings):
    settings.OUTBOUND_ALLOW = ["192.168.7.0/24"]
    assert "192.168.7.0/24" in operator.get(LIST).content.decode()


def test_members_neither_see_nor_add_any(client, ada):
    client.force_login(ada)
    assert client.get(LIST).status_code == client.post(ADD, {"entry": "10.0.0.0/8"}).status_code == 302
    ada.is_staff = True
    ada.save()
    assert client.get(LIST).status_code == client.post(ADD, {"entry": "10.0.0.0/8"}).status_code == 403
    assert not NetworkAllowance.objects.exists()


def client_of(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def test_a_refused_registration_links_to_where_it_can_be_allowed(operator, endpoint, ada):
    link = f"{ADD}?entry=127.0.0.1%3A{endpoint.port}"
    assert link in operator.post(reverse("admin:remote_remoteagent_add"), {"source": endpoint.url}).content.decode()
    page = operator.get(ADD, {"entry": entry_of(endpoint)})
    assert page.context["adminform"].form.initial["entry"] == entry_of(endpoint)
