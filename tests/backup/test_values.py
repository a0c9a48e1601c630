"""Each type of column comes back exactly from each database."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from typing import Any

import pytest
from django.db import connection, models
from django.test.utils import isolate_apps

from apps.optional.backup.database import Filler, Snapshot
from apps.optional.backup.tables import Table

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("each database has forms of its own for most types"),
]

AT = datetime.datetime(2030, 1, 31, 23, 59, 59, 123456, datetime.UTC)
VALUES: list[dict[str, Any]] = [
    {
        "binary": bytes(range(256)),
        "boolean": True,
        "date": AT.date(),
        "decimal": decimal.Decimal("12345678901234567890.123456789"),
        "double": 0.1 + 0.2,
        "duration": datetime.timedelta(days=-1, microseconds=1),
        "identifier": uuid.UUID(int=7),
        "json": {"large": 2**60, "text": "\N{SNOWMAN} \u2028 \\ \" ' \t", "list": [None, True, 0.1, {}]},
        "number": -(2**62),
        "text": "tab\t line\n return\r \\N \\. \N{PILE OF POO} {} 'quoted' \"twice\"",
        "time": AT,
    },
    {
        "binary": b"",
        "boolean": False,
        "date": datetime.date.min,
        "decimal": decimal.Decimal("-0.000000001"),
        "double": -1e300,
        "duration": datetime.timedelta(0),
        "identifier": uuid.UUID(int=2**128 - 1),
        "json": "",
        "number": 0,
        "text": "",
        "time": AT.replace(microsecond=0),
    },
    dict.fromkeys(
        ["binary", "boolean", "date", "decimal", "double", "duration", "identifier", "json", "number", "time"]
    ),
]


@pytest.fixture
def every():
    with isolate_apps("apps.operators"):

        class EveryType(models.Model):  # noqa: DJ008
            binary = models.BinaryField(null=True)
            boolean = models.BooleanField(null=True)
            date = models.DateField(null=True)
            decimal = models.DecimalField(max_digits=30, decimal_places=9, null=True)
            double = models.FloatField(null=True)
            duration = models.DurationField(null=True)
            identifier = models.UUIDField(null=True)
            json = models.JSONField(null=True)
            number = models.BigIntegerField(null=True)
            text = models.TextField(default="empty")
            time = models.DateTimeField(null=True)

            class Meta:
                app_label = "operators"

    with connection.schema_editor() as editor:
        editor.create_model(EveryType)
    yield EveryType
    with connection.schema_editor() as editor:
        editor.delete_model(EveryType)


def test_values_of_all_types_survive_text(every):
    for values in VALUES:
        every.objects.create(**values)
    before = list(every.objects.order_by("pk").values())
    table = Table(every)
    with Snapshot() as snapshot:
        lines = [json.dumps(row) for row in snapshot.rows(table)]
        assert snapshot.last_key(table) == len(VALUES)
    every.objects.all().delete()
    assert Filler("default", lambda _: None).insert(table, map(json.loads, lines)) == len(VALUES)
    after = list(every.objects.order_by("pk").values())
    for row in (*before, *after):
        row["binary"] = row["binary"] if row["binary"] is None else bytes(row["binary"])
    assert after == before
    assert [row["json"] for row in after] == [values["json"] for values in VALUES]
