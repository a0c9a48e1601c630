"""PostgreSQL lets events of several contexts be deleted in one statement: the gate's setting has all their ids.

A process of the version before sets one id, which works as before.
"""

from django.db import migrations

OPEN_TO_MANY = "strpos(coalesce(current_setting('parley.erasing', true), ''), OLD.context_id::text) = 0"
OPEN_TO_ONE = "OLD.context_id::text IS DISTINCT FROM current_setting('parley.erasing', true)"
COLUMNS = ('id', '"index"', 'type', 'task_id', 'run', 'artifact_id', 'payload', 'at', 'hash')
CHANGED = ' OR '.join(f'NEW.{name} IS DISTINCT FROM OLD.{name}' for name in COLUMNS)


def install(schema_editor, closed):
    if schema_editor.connection.vendor != 'postgresql':
        return
    for act, condition in (('update', f'{closed} OR {CHANGED}'), ('delete', closed)):
        schema_editor.execute(
            f'CREATE OR REPLACE TRIGGER event_no_{act} BEFORE {act} ON record_event '
            f'FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION event_refuse()',
            params=None,
        )


class Migration(migrations.Migration):

    dependencies = [
        ('record', '0001_squashed'),
    ]

    operations = [
        migrations.RunPython(
            lambda apps, schema_editor: install(schema_editor, OPEN_TO_MANY),
            lambda apps, schema_editor: install(schema_editor, OPEN_TO_ONE),
        ),
    ]
