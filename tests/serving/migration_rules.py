"""What a migration may do while processes of the version before it still run on the same database.

A version expands: it adds tables, indexes, and columns that old processes need not fill. A later version contracts.
"""

from collections.abc import Iterator

from django.db import migrations, models
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models.expressions import Func
from django.db.models.functions import Now

from parley.db.indexes import AddIndexBesideWriters

HARMLESS = (
    migrations.CreateModel,
    AddIndexBesideWriters,
    migrations.AlterModelOptions,
    migrations.AlterModelManagers,
    migrations.AlterConstraint,
    migrations.RunPython,
)
"""AlterConstraint changes no table. RunPython is read by a person: old processes write on meanwhile."""
SCHEMA_FREE = {"choices", "help_text", "verbose_name", "validators", "blank", "default", "editable", "error_messages"}
CONTRACTS = "contracts"
"""A migration with this attribute says in words since which version no process uses what it takes away."""


def unsafe_operations(migration: migrations.Migration, before: ProjectState) -> list[str]:
    """What of a migration old processes do not survive, as sentences. `before` is changed."""
    found, created = [], set()
    is_alone = not migration.atomic and len(migration.operations) == 1
    for operation in migration.operations:
        created |= {operation.name_lower} if isinstance(operation, migrations.CreateModel) else set()
        old = before.clone()
        operation.state_forwards(migration.app_label, before)
        for problem in _problems(operation, migration.app_label, old, before, created, is_alone=is_alone):
            found.append(f"{migration.app_label}.{migration.name}: {operation.describe()}: {problem}")
    return [] if getattr(migration, CONTRACTS, "") else found


def _problems(
    operation: Operation, app: str, old: ProjectState, new: ProjectState, created: set[str], *, is_alone: bool
) -> Iterator[str]:
    match operation:
        case migrations.AddField(field=field) if operation.model_name_lower not in created:
            yield from _added(field)
        case migrations.AddField():
            pass
        case migrations.AlterField():
            yield from _altered(operation, app, old, new)
        case migrations.AddConstraint() if operation.model_name_lower not in created:
            yield "Old processes may break it. Check it in code first, and add it in a later version."
        case migrations.AddIndex():
            is_beside = is_alone and isinstance(operation, AddIndexBesideWriters)
            if operation.model_name_lower not in created and not is_beside:
                yield "Nobody writes until it is built: use parley.db.indexes.AddIndexBesideWriters alone, not atomic."
        case migrations.SeparateDatabaseAndState() if not operation.database_operations:
            pass
        case _ if not isinstance(operation, (*HARMLESS, migrations.AddConstraint)):
            yield f'Old processes use it. Do it in a later version, with {CONTRACTS} = "unused since …".'


def _added(field: models.Field) -> Iterator[str]:
    if field.many_to_many:
        return
    if not (field.null or field.has_db_default()):
        yield "Old processes do not fill it. Give it null=True or a db_default."
    if isinstance(field.db_default, Func) and not isinstance(field.db_default, Now):
        yield "Nobody can read until every row has it. Give it a constant as db_default, or null=True."
    if field.db_index or field.unique:
        yield "Nobody can read until its index is built. Give it db_index=False, and add the index afterwards."


def _altered(operation: migrations.AlterField, app: str, old: ProjectState, new: ProjectState) -> Iterator[str]:
    key = (app, operation.model_name_lower)
    before, after = (state.models[key].fields[operation.name] for state in (old, new))
    (_, path, args, fields), (_, new_path, new_args, new_fields) = before.deconstruct(), after.deconstruct()
    if after.null is False and before.null:
        yield "Old processes write null. Stop them first in code, and do this in a later version."
    changed = {name for name in {*fields, *new_fields} if fields.get(name) != new_fields.get(name)}
    if _is_wider(before, after):
        changed.discard("max_length")
    changed -= SCHEMA_FREE | {"null", "db_default"}
    if path != new_path or args != new_args or changed:
        yield f"It changes {', '.join(sorted(changed)) or 'the type'}. Add another column instead."


def _is_wider(before: models.Field, after: models.Field) -> bool:
    return (after.max_length or 0) >= (before.max_length or 0)
