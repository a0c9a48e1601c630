"""Forks of the version before say to which family they belong.

A fork that a process of the version before makes meanwhile is a family of its own.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.db import migrations

ROWS_AT_ONCE = 500


def note_roots(apps: Any, schema_editor: Any) -> None:
    contexts = apps.get_model("record", "Context").objects.using(schema_editor.connection.alias)
    forks = {one.pk: one for one in contexts.exclude(forked_at=None).only("parent", "owner", "root")}
    parents = {one.parent_id for one in forks.values() if one.parent_id} - forks.keys()
    owners = {key: one.owner_id for key, one in forks.items()}
    for first in batches(sorted(parents)):
        owners |= dict(contexts.filter(pk__in=first).values_list("pk", "owner"))

    def root_of(key: uuid.UUID) -> uuid.UUID:
        while key in forks and forks[key].root is None:
            parent = forks[key].parent_id
            if parent is None or owners.get(parent, ()) != owners[key]:
                return key
            key = parent
        return (forks[key].root or key) if key in forks else key

    found = {key: root_of(key) for key, one in forks.items() if one.root is None}
    for some in batches(list(found)):
        for key in some:
            forks[key].root = found[key]
        contexts.bulk_update([forks[key] for key in some], ["root"])


def batches(keys: list[uuid.UUID]) -> list[list[uuid.UUID]]:
    return [keys[at : at + ROWS_AT_ONCE] for at in range(0, len(keys), ROWS_AT_ONCE)]


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("record", "0013_context_root"),
    ]

    operations = [
        migrations.RunPython(note_roots, migrations.RunPython.noop),
    ]
