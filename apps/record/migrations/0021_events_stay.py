"""The database itself refuses to change and delete events, except those of a context that `record.chain.erasing` names.

Even then an event only moves to another context, as it is. A migration that rebuilds the table on SQLite has to install
the triggers again.
"""

from django.db import migrations

COLUMNS = ('id', '"index"', 'type', 'task_id', 'run', 'artifact_id', 'payload', 'at', 'hash')
MESSAGE = 'The log only grows: its events are neither changed nor deleted. Delete or archive the session instead.'
REFUSE = f"BEGIN SELECT RAISE(ABORT, '{MESSAGE}'); END"
CLOSED = {
    'sqlite': 'NOT EXISTS (SELECT 1 FROM record_erasing WHERE context_id = OLD.context_id)',
    'postgresql': "OLD.context_id::text IS DISTINCT FROM current_setting('parley.erasing', true)",
}


def changed(operator):
    return ' OR '.join(f'NEW.{name} {operator} OLD.{name}' for name in COLUMNS)


INSTALL = {
    # REPLACE deletes a row without the triggers of DELETE.
    'sqlite': [
        'CREATE TABLE record_erasing (context_id char(32) NOT NULL PRIMARY KEY) WITHOUT ROWID',
        f"CREATE TRIGGER event_no_update BEFORE UPDATE ON record_event WHEN {CLOSED['sqlite']} OR {changed('IS NOT')} {REFUSE}",
        f"CREATE TRIGGER event_no_delete BEFORE DELETE ON record_event WHEN {CLOSED['sqlite']} {REFUSE}",
        'CREATE TRIGGER event_no_replace BEFORE INSERT ON record_event WHEN EXISTS (SELECT 1 FROM record_event '
        f'WHERE id = NEW.id OR (context_id = NEW.context_id AND "index" = NEW."index")) {REFUSE}',
    ],
    'postgresql': [
        'CREATE FUNCTION event_refuse() RETURNS trigger LANGUAGE plpgsql AS '
        f"$$ BEGIN RAISE EXCEPTION '{MESSAGE}' USING ERRCODE = 'restrict_violation'; END $$",
        'CREATE TRIGGER event_no_update BEFORE UPDATE ON record_event FOR EACH ROW '
        f"WHEN ({CLOSED['postgresql']} OR {changed('IS DISTINCT FROM')}) EXECUTE FUNCTION event_refuse()",
        'CREATE TRIGGER event_no_delete BEFORE DELETE ON record_event FOR EACH ROW '
        f"WHEN ({CLOSED['postgresql']}) EXECUTE FUNCTION event_refuse()",
        'CREATE TRIGGER event_no_truncate BEFORE TRUNCATE ON record_event EXECUTE FUNCTION event_refuse()',
    ],
}
REMOVE = {
    'sqlite': [
        *(f'DROP TRIGGER IF EXISTS event_no_{act}' for act in ('update', 'delete', 'replace')),
        'DROP TABLE record_erasing',
    ],
    'postgresql': ['DROP FUNCTION event_refuse() CASCADE'],
}


def protect(apps, schema_editor):
    for statement in INSTALL[schema_editor.connection.vendor]:
        schema_editor.execute(statement, params=None)


def leave_unprotected(apps, schema_editor):
    for statement in REMOVE[schema_editor.connection.vendor]:
        schema_editor.execute(statement, params=None)


class Migration(migrations.Migration):

    dependencies = [
        ('record', '0020_newest_hash_of_contexts'),
    ]

    operations = [
        migrations.RunPython(protect, leave_unprotected),
    ]
