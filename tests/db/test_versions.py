"""A database has all migrations of this version, lacks some, or stopped before a version that merged them."""

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from parley.db import versions
from parley.serving import health

pytestmark = pytest.mark.django_db

MERGED = ("record", "0001_squashed")
REPLACED = [".".join(key) for key in MigrationLoader(None).replacements[MERGED].replaces]


@pytest.fixture
def rows():
    """What the database says of its migrations."""
    return MigrationRecorder(connection).migration_qs


def test_database_with_all_replaced_migrations_has_the_merged(rows):
    rows.filter(name=MERGED[1]).delete()
    assert versions.missing(connection) == []
    call_command("migrate", verbosity=0)
    assert rows.filter(app=MERGED[0], name=MERGED[1]).exists()


@pytest.mark.parametrize("kept", [0, 1, -1])
def test_a_database_with_some_of_them_is_refused(rows, monkeypatch, kept):
    gone = [name.split(".")[1] for name in REPLACED]
    del gone[kept]
    rows.filter(app=MERGED[0], name__in=[*gone, MERGED[1]]).delete()
    monkeypatch.setattr(health, "_migrated", False)
    assert not health.is_migrated()
    assert versions.out_of_reach(connection) == [f"{MERGED[0]}.{name}" for name in gone]
    with pytest.raises(CommandError, match=gone[0]):
        call_command("migrate", verbosity=0)


def test_a_missing_migration_can_be_applied(rows):
    rows.filter(app="housekeeping", name="0002_backups").delete()
    assert versions.missing(connection) == ["housekeeping.0002_backups"]
    assert versions.out_of_reach(connection) == []


def test_replaced_migrations_are_named_by_their_merged_one():
    others = {"auth.0001_initial", "later.0002_unknown"}
    assert versions.named_now({*REPLACED, *others}) == {".".join(MERGED), *others}
    assert versions.named_now({*REPLACED[1:], *others}) == others
    assert versions.named_now(versions.known()) == set(versions.known())
