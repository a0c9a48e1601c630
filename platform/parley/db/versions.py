"""Which of this version's migrations a database or a backup has. A migration is named `app.name`."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader


def known() -> list[str]:
    """The migrations of this version."""
    return sorted(map(".".join, MigrationLoader(None).graph.nodes))


def missing(database: BaseDatabaseWrapper) -> list[str]:
    """The migrations that the database lacks, first those that only a version before this one has."""
    executor = MigrationExecutor(database)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return _out_of_reach(executor.loader) + [f"{one.app_label}.{one.name}" for one, _ in plan]


def out_of_reach(database: BaseDatabaseWrapper) -> list[str]:
    """The migrations that the database lacks, and that only a version before this one has.

    A migration of this version replaces them. Django uses it where all or none of them are applied. Elsewhere it acts
    as if this version had no such migration.
    """
    return _out_of_reach(MigrationLoader(database))


def _out_of_reach(loader: MigrationLoader) -> list[str]:
    applied = loader.applied_migrations
    begun = [one for one in loader.replacements.values() if any(key in applied for key in one.replaces)]
    return sorted(".".join(key) for one in begun for key in one.replaces if key not in applied)


def named_now(names: Iterable[str]) -> set[str]:
    """Migrations as this version names them: one of its own for those that it replaces, if all of them are there."""
    found = set(names)
    for key, one in MigrationLoader(None).replacements.items():
        replaced = {".".join(name) for name in one.replaces}
        if replaced <= found:
            found.add(".".join(key))
        found -= replaced
    return found
