"""Operators allow private addresses in admin; `outbound` opens those at once and no others."""

import datetime

import pytest
from django.contrib.admin.models import LogEntry
from django.urls import reverse
from django.utils import timezone

from apps.installation import current
from apps.installation.models import NetworkAllowance
from parley import db, outbound
from parley.outbound import Allowed, Guard, Limits, targets
from tests.model_agents.endpoint import Endpoint

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


async def test_allowances_hold_at_once_until_removed(endpoint):
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


def test_form_gives_thirty_days_or_never(operator):
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


DANGEROUS = """169.254.169.254 169.254.169.254:80 169.254.169.254/32 [fd00:ec2::254]:80 ::ffff:169.254.169.254
    64:ff9b::a9fe:a9fe 100.100.100.200 0.0.0.0/0 ::/0"""


def test_dangerous_and_wrong_entries_cannot_be_allowed(operator):
    for entry in (*DANGEROUS.split(), "http://10.0.0.1", "10.0.0.1,10.0.0.2", ""):
        answer = operator.post(ADD, {"entry": entry, "reason": "Models", "lasts": "30"})
        assert "entry" in answer.context["adminform"].form.errors, entry
    assert not NetworkAllowance.objects.exists()


async def test_metadata_addresses_stay_closed_by_any_name():
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


def test_refused_registration_offers_to_allow_the_address(operator, endpoint):
    page = operator.post(reverse("admin:remote_remoteagent_add"), {"url": endpoint.url}).content.decode()
    assert f'value="{entry_of(endpoint)}"' in page
