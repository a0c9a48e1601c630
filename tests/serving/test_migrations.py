"""Migrations run while processes of the version before still serve."""

from typing import Any

import pytest
from django.contrib.postgres.functions import RandomUUID
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ModelState, ProjectState

from parley.db.indexes import AddIndexBesideWriters
from tests.serving.migration_rules import CONTRACTS, unsafe_operations


def test_every_migration_leaves_the_version_before_it_working():
    loader = MigrationLoader(None)
    found = []
    for key, migration in loader.disk_migrations.items():
        is_ours = type(migration).__module__.startswith("apps.")
        if is_ours and not migration.initial:
            found += unsafe_operations(migration, loader.project_state(key, at_end=False))
    assert found == [], f"or say since when nothing uses it: {CONTRACTS} = …"


def check(*operations: Any, **attributes: Any) -> list[str]:
    text, number = models.CharField(max_length=10), models.IntegerField(null=True)
    state = ProjectState()
    state.add_model(ModelState("app", "Row", [("id", models.AutoField(primary_key=True)), ("a", text), ("b", number)]))
    made = type("Migration", (migrations.Migration,), {"operations": list(operations), **attributes})
    return unsafe_operations(made("0002_x", "app"), state)


ADDED = {"null": models.TextField(null=True), "db_default": models.TextField(db_default="")}
UNIQUE = models.UniqueConstraint(fields=["a"], name="a_is_unique")


@pytest.mark.parametrize(
    "operations",
    [
        [migrations.AddField("row", "c", ADDED["null"])],
        [migrations.AddField("row", "c", ADDED["db_default"])],
        [migrations.AlterField("row", "a", models.CharField(max_length=20, help_text="Longer.", null=True))],
        [
            migrations.CreateModel("New", [("id", models.AutoField(primary_key=True)), ("a", models.TextField())]),
            migrations.AddField("new", "c", models.TextField(default="")),
            migrations.AddConstraint("new", UNIQUE),
            migrations.AddIndex("new", models.Index(fields=["a"], name="by_a")),
        ],
    ],
)
def test_what_adds_is_safe(operations):
    assert check(*operations) == []


def test_index_beside_writers_is_alone_and_not_atomic():
    index = AddIndexBesideWriters("row", models.Index(fields=["a"], name="by_a"))
    assert check(index, atomic=False) == []
    assert len(check(index)) == 1
    assert len(check(index, migrations.AddField("row", "c", ADDED["null"]), atomic=False)) == 1


@pytest.mark.parametrize(
    "operation",
    [
        migrations.AddField("row", "c", models.TextField(default="")),
        migrations.AddField("row", "c", models.UUIDField(db_default=RandomUUID())),
        migrations.AddField("row", "c", models.TextField(null=True, db_index=True)),
        migrations.AddIndex("row", models.Index(fields=["a"], name="by_a")),
        migrations.RemoveField("row", "a"),
        migrations.RenameField("row", "a", "c"),
        migrations.DeleteModel("Row"),
        migrations.AlterField("row", "a", models.CharField(max_length=5)),
        migrations.AlterField("row", "b", models.IntegerField()),
        migrations.AddConstraint("row", UNIQUE),
        migrations.RunSQL("DROP TABLE app_row"),
    ],
    ids=lambda one: one.describe(),
)
def test_contracting_migrations_are_found_unless_declared(operation):
    assert len(check(operation)) == 1
    assert check(operation, **{CONTRACTS: "unused since 0.2"}) == []
