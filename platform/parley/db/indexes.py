"""Indexes of tables that are in use."""

from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db.migrations import AddIndex


class AddIndexBesideWriters(AddIndexConcurrently):
    """`AddIndex` for a table of a version before: on PostgreSQL, writers go on while it is built.

    It needs a migration of its own with `atomic = False`.
    """

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        connection = schema_editor.connection
        if connection.vendor != "postgresql":
            AddIndex.database_forwards(self, app_label, schema_editor, from_state, to_state)
            return
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('lock_timeout')")
            [usual] = cursor.fetchone()
            cursor.execute("SET lock_timeout = '15min'")  # it waits for open transactions; nobody waits behind it
            try:
                name = connection.ops.quote_name(self.index.name)
                cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")  # the rest of one that was not finished
                super().database_forwards(app_label, schema_editor, from_state, to_state)
            finally:
                cursor.execute(f"SET lock_timeout = '{usual}'")

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor != "postgresql":
            AddIndex.database_backwards(self, app_label, schema_editor, from_state, to_state)
        else:
            super().database_backwards(app_label, schema_editor, from_state, to_state)


class AddIndexOfPostgres(AddIndexBesideWriters):
    """`AddIndexBesideWriters` of a kind that SQLite does not have, so that no model declares it."""

    def state_forwards(self, app_label: str, state: Any) -> None:
        pass

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            model = from_state.apps.get_model(app_label, self.model_name)
            schema_editor.remove_index(model, self.index, concurrently=True)
